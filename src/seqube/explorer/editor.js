// The query editor's language: colours for the words of a query, completion of what can stand at the cursor, and what a function takes and gives.
import * as CM from "nicegui-codemirror";

function makeLanguage(known) {
  return CM.StreamLanguage.define({
    name: "seqube",
    token(stream) {
      if (stream.eatSpace()) return null;
      if (stream.match(/^--.*/)) return "comment";
      if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
      if (stream.match(/^(?:\d+(?:\.\d+)?\s*(?:[a-zµ]+\b)?)/i)) return "number";
      if (stream.match(/^(?:"(?:[^"]|"")*"?|`(?:[^`]|``)*`?)/)) return "typeName";
      const word = stream.match(/^[^\W\d]\w*/);
      if (word) {
        if (known.keywords.has(word[0].toUpperCase())) return "keyword";
        if (known.types.has(word[0])) return "typeName";
        return "variableName";
      }
      if (stream.match(/^!(?!=)/)) return "operatorKeyword";
      stream.next();
      return "operator";
    },
    languageData: { commentTokens: { line: "--" }, autocomplete: (context) => complete(context, known) },
  });
}

// After "variable." the attributes; elsewhere types, variables of the text and keywords.
function complete(context, known) {
  const word = context.matchBefore(/[\w.]*/);
  if (!word || (word.from === word.to && !context.explicit)) return null;
  const dot = word.text.lastIndexOf(".");
  if (dot >= 0) {
    const options = known.attributes.map((name) => ({ label: name, type: "property" }));
    return { from: word.from + dot + 1, options, validFor: /^\w*$/ };
  }
  const written = context.state.doc.toString();
  const text = written.slice(0, word.from) + written.slice(context.pos); // what is being typed is no name yet
  const variables = new Set();
  for (const found of text.matchAll(/[\w"`](?:[+*?]|\{[\d, ]*\})?\??\s+([^\W\d]\w*)\s*(?=[,)])/g)) {
    if (!known.keywords.has(found[1].toUpperCase())) variables.add(found[1]);
  }
  const options = [
    ...[...known.types].map((name) => ({ label: name, apply: /^[^\W\d]\w*$/.test(name) ? name : `"${name}"`, type: "class" })),
    ...[...variables].map((name) => ({ label: name, type: "variable" })),
    ...[...known.keywords].map((name) => {
      const [call, meaning] = known.functions[name] ?? [];
      return { label: name, type: call ? "function" : "keyword", detail: call, info: meaning, boost: -1 };
    }),
  ];
  return { from: word.from, options, validFor: /^\w*$/ };
}

// What the function under the pointer takes and gives.
function explain(view, position, known) {
  const word = view.state.wordAt(position);
  const found = word && known.functions[view.state.sliceDoc(word.from, word.to).toUpperCase()];
  if (!found) return null;
  const create = () => {
    const dom = document.createElement("div");
    dom.className = "sq-signature";
    dom.textContent = found.join(": ");
    return { dom };
  };
  return { pos: word.from, end: word.to, above: true, create };
}

// Where the query is wrong. The marks are ours and not the editor element's decorations: the server sends those together with the text that it
// knows, and what was typed while they were on their way would be overwritten.
const setMarks = CM.StateEffect.define();
const marks = CM.StateField.define({
  create: () => CM.Decoration.none,
  update(set, transaction) {
    set = set.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(setMarks)) set = effect.value;
    return set;
  },
  provide: (field) => CM.EditorView.decorations.from(field),
});

// The editor may not be there yet: it is made when its tab is first looked at. What the server asks for is done in the order in which it came, for
// each editor by itself (`id`): one whose tab nobody looks at holds up no other.
const turns = new Map();
async function editorOf(find) {
  while (!find()?.editorPromise) await new Promise((resolve) => setTimeout(resolve, 100));
  return find().editorPromise;
}
function inTurn(id, find, act) {
  const done = (turns.get(id) ?? Promise.resolve()).then(() => editorOf(find)).then(act);
  turns.set(id, done.catch(() => {})); // what fails is told to who asked, and the next goes on
  return done;
}

// Put another text into the editor, where it still holds the text that the server knew: what was typed since stays.
//
// The text belongs to the browser. The server follows it by the changes that the editor sends, this one too, in the order in which they were
// made here; a text that it set by itself would cross with what is being typed, and the two would hold different texts from then on.
export function write(id, find, before, text) {
  return inTurn(id, find, (view) => {
    const now = view.state.doc.toString();
    if (now === before && now !== text) view.dispatch({ changes: { from: 0, to: now.length, insert: text } });
  });
}

// Underline places of a text, given as pairs of offsets; marks for a text that has changed since are nobody's.
export function mark(id, find, text, places) {
  return inTurn(id, find, (view) => {
    if (view.state.doc.toString() !== text) return;
    const wrong = CM.Decoration.mark({ class: "sq-wrong" });
    const effects = [setMarks.of(CM.Decoration.set(places.map(([from, to]) => wrong.range(from, to)), true))];
    if (!view.state.field(marks, false)) effects.unshift(CM.StateEffect.appendConfig.of(marks));
    view.dispatch({ effects });
  });
}

const compartments = new WeakMap();

// Teach an editor the language: its keywords and functions, and the names that are known now; called again when other events are opened.
// `label` is what the editor is called for those who do not see it.
export function teach(id, find, types, attributes, keywords, functions, label) {
  return inTurn(id, find, (view) => {
    const known = { types: new Set(types), attributes, keywords: new Set(keywords), functions };
    const language = [makeLanguage(known), CM.hoverTooltip((view, position) => explain(view, position, known))];
    const old = compartments.get(view);
    if (old) {
      view.dispatch({ effects: old.reconfigure(language) });
    } else {
      const compartment = new CM.Compartment();
      compartments.set(view, compartment);
      view.dispatch({ effects: CM.StateEffect.appendConfig.of(compartment.of(language)) });
    }
    view.contentDOM.setAttribute("aria-label", label);
  });
}
