"""The command `seqube explore`: a server for one person on this machine, and the token at its door.

Every request, the web socket's too, needs the token: in the printed address once, in a cookie afterwards. A request that another
page makes (another origin) is refused even with the cookie. The headers forbid the page to talk to anything but this server. What a
request may send, and how many connections there may be, is bounded whoever it comes from.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import typer
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from nicegui import app as pages
from nicegui import ui
from rich.console import Console
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqube.errors import DataError
from seqube.events import Hierarchy
from seqube.events.schema import check_unit
from seqube.explorer.page import LARGEST_UPLOAD, Explorer, show_page
from seqube.explorer.sources import Source, generated
from seqube.predict.rules import Rules

LOOPBACK = "127.0.0.1"
LARGEST_REQUEST = LARGEST_UPLOAD + 2**20  # a file, and what is written around it
MOST_CONNECTIONS = 500

HEADERS = {
    # The page's framework compiles its templates in the browser, hence unsafe-eval; no value of an event is ever a template.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets nobody in without the token, and puts the headers on every answer."""

    def __init__(self, inner: ASGIApp, token: str, cookie: str) -> None:
        self._inner, self._token, self._cookie = inner, token, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        headers = Headers(scope=scope)
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        answer: ASGIApp
        if not self._is_own(headers) or not (
            self._fits(given) or self._fits(cookie_parser(headers.get("cookie", "")).get(self._cookie))
        ):
            answer = PlainTextResponse("This page needs the token in the address that `seqube explore` printed.\n", 403)
        elif given is not None and scope["type"] == "http" and scope["method"] == "GET":
            # The token goes into a cookie and out of the address, so that an address can be shown to others.
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            redirect = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            redirect.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            answer = redirect
        elif int(length) > LARGEST_REQUEST if (length := headers.get("content-length", "0")).isdecimal() else True:
            answer = PlainTextResponse("This is more than the page takes at once.\n", 413)
        else:
            answer = self._inner
            receive = _at_most(LARGEST_REQUEST, receive)
        if scope["type"] == "websocket" and answer is not self._inner:
            await send({"type": "websocket.close", "code": 1008})
            return
        await answer(scope, receive, _with_headers(send))

    def _fits(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    @staticmethod
    def _is_own(headers: Headers) -> bool:
        """Whether a request comes from this page, or from no page at all; cookies do not tell ports apart."""
        origin = headers.get("origin")
        try:
            return origin is None or urlsplit(origin).netloc == headers.get("host")
        except ValueError:
            return False  # no address at all


def _at_most(size: int, receive: Receive) -> Receive:
    """The same messages; a request that sends more than it said, or did not say how much, is cut off."""
    left = size

    async def receiver() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                return {"type": "http.disconnect"}
        return message

    return receiver


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sender


def downloads(explorer: Explorer) -> FastAPI:
    """What can be had beside the page: the rows of results."""
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @server.get("/export/{name}")
    def export(name: str) -> StreamingResponse:
        number, _, ending = name.partition(".")
        result = explorer.results.get(number)  # a name that is not in the table leads nowhere, whatever it looks like
        if result is None or ending not in ("csv", "parquet"):
            raise HTTPException(404, "there is no such result any more")
        pieces: Iterator[bytes] = result.as_csv() if ending == "csv" else result.as_parquet()
        kind = "text/csv" if ending == "csv" else "application/vnd.apache.parquet"
        return StreamingResponse(
            pieces, media_type=kind, headers={"Content-Disposition": f'attachment; filename="matches.{ending}"'}
        )

    return server


def build(explorer: Explorer, token: str, port: int) -> ASGIApp:
    """The whole application: the page, its scripts, the downloads, behind the guard."""
    server = downloads(explorer)
    pages.add_static_file(local_file=Path(__file__).with_name("editor.js"), url_path="/seqube/editor.js")

    @ui.page("/", title="Seqube explorer")
    async def page(request: Request) -> None:
        await show_page(explorer, request)

    pages.on_shutdown(explorer.close)
    ui.run_with(server, title="Seqube explorer", favicon=_ICON, show_welcome_message=False, reconnect_timeout=30, tailwind=True)
    return Guard(server, token, f"seqube-{port}")


_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#0f766e"/>'
    '<path d="M5 23 12 11l7 8 8-11" fill="none" stroke="#fff" stroke-width="2.5"/><g fill="#fff"><circle cx="5" cy="23" r="2.6"/>'
    '<circle cx="12" cy="11" r="2.6"/><circle cx="19" cy="19" r="2.6"/><circle cx="27" cy="8" r="2.6"/></g></svg>'
)


def explore(
    events: Annotated[
        list[Path] | None, typer.Option("--events", metavar="PATH", help="CSV, JSON lines or Parquet; may be repeated.")
    ] = None,
    type_column: Annotated[str, typer.Option("--type", metavar="COL", help="The column that holds the event type.")] = "type",
    time_column: Annotated[str, typer.Option("--time", metavar="COL", help="The column that holds the time.")] = "ts",
    unit: Annotated[str, typer.Option(help="The unit of an integer time column: us, ms, s ...")] = "ms",
    hierarchy: Annotated[Path | None, typer.Option(metavar="H.yaml", help="The concepts above the event types.")] = None,
    rules: Annotated[Path | None, typer.Option(metavar="R.yaml", help="Rules to forecast with.")] = None,
    live: Annotated[Path | None, typer.Option(metavar="PATH", help="A running pipeline: its file, or its sinks' folder.")] = None,
    host: Annotated[str, typer.Option(help="Another interface than this machine's own; the token is needed there too.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
) -> None:
    """Open the page for writing queries and looking at what they find."""
    out = Console()
    check_unit(unit)
    concepts = Hierarchy.load(hierarchy) if hierarchy else None
    known = Rules.load(rules) if rules else None
    sources = []
    for path in events or []:
        if not path.exists():
            raise DataError(f"there are no events in {path}: no such file or folder")
        sources.append(Source(path.name, path, "", type_column, time_column, unit, concepts, known))
    token = secrets.token_urlsafe(24)
    with _listen(host, port) as door, tempfile.TemporaryDirectory(prefix="seqube-") as folder:
        here = door.getsockname()[1]
        explorer = Explorer([*sources, *generated()], Path(folder), live)
        shown = f"[{host}]" if ":" in host else host
        if host != LOOPBACK:
            out.print("Anyone who can reach this machine and has the token can use the page, without encryption.", style="yellow")
        print(f"Seqube explorer: http://{shown}:{here}/?token={token}\nCtrl-C ends it.", flush=True)  # noqa: T201
        settings: dict[str, Any] = {"log_level": "warning", "ws_max_size": 64 * 2**20, "server_header": False}
        settings |= {"limit_concurrency": MOST_CONNECTIONS, "http": "h11"}  # which bounds the headers of a request
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # an end like any other: the folder goes, and the workers
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(build(explorer, token, here), **settings)).run(sockets=[door])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = "--port 0 takes a free one" if is_taken else f"--host takes an address of this machine, such as {LOOPBACK}"
        raise DataError(f"cannot listen on {host}, port {port}: {error.strerror}\n  hint: {hint}") from None


if __name__ == "__main__":
    typer.run(explore)
