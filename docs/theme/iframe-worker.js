// Opened from disk, a page may not start a worker, and the search is one: there its script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      // What a worker calls and a frame lacks. The frame answers by a call and not by a message: files are strangers to each other.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...urls) =>
        urls.reduce((before, from) => before.then(() => load(from)), Promise.resolve());
      const load = (from) =>
        new Promise((resolve) => {
          const script = inside.document.createElement("script");
          script.src = from;
          script.onload = resolve;
          inside.document.body.append(script);
        });
      this.ready = load(url);
      this.inside = inside;
      this.addEventListener("message", (event) => this.onmessage?.(event));
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
