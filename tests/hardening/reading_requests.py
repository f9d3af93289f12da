"""Requests to the page, from the bytes of a connection to what a tab reads of its address."""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h11
import pyarrow as pa
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hardening.hostile import mutate, spoil
from seqube.explorer.funnels import _read as read_funnel
from seqube.explorer.page import Explorer, Screen
from seqube.explorer.panels import CubePanel, ForecastPanel, Timeline
from seqube.explorer.server import Guard, downloads

TOKEN = "right"
ADDRESS = b"/?token=right&data=generated+stock&view=cube&q=SEQ%28A+a%29&strategy=auto&via=x&via=y"
DETAILS = b"/?show=table&between=1.5~9&sql=SELECT+1&funnel=%7B%22steps%22%3A%5B%22A%22%5D%2C%22by%22%3A%22id%22%7D&pivot=1,2,1&rule=1&at=5"


class Shut(asyncio.Transport):
    """The other end of a connection, which keeps what is said to it."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.is_shut = False

    def write(self, data: Any) -> None:
        self.said += bytes(data)

    def close(self) -> None:
        self.is_shut = True

    def is_closing(self) -> bool:
        return self.is_shut

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


class Door:
    """The page's server up to the page itself: the protocol, the guard, the downloads, what a tab reads of its address."""

    def __init__(self, folder: Path) -> None:
        from seqube.explorer.sources import generated

        self.loop = asyncio.new_event_loop()
        self._explorer = Explorer(generated(), folder)
        self._exports = downloads(self._explorer)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        self._config = uvicorn.Config(
            Guard(self._inner, TOKEN, "seqube-1"), http="h11", ws="none", log_config=None, access_log=False
        )
        self._config.load()

    def ask(self, data: bytes) -> bytes:
        return self.loop.run_until_complete(self._ask(data))

    async def _ask(self, data: bytes) -> bytes:
        state, other = ServerState(), Shut()
        protocol = H11Protocol(self._config, state, {}, self.loop)
        protocol.connection_made(other)
        half = len(data) // 2
        for piece in (data[:half], data[half:]):
            if piece and not other.is_shut:  # no bytes are the end to it, which asyncio tells in another way
                try:
                    protocol.data_received(piece)
                except h11.LocalProtocolError:
                    other.close()  # a fault of the protocol's own, which asyncio answers in this way
        waiting = set(state.tasks)
        protocol.connection_lost(None)
        if waiting:
            await asyncio.wait(waiting)
        return other.said

    async def _inner(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/":
            await self._exports(scope, receive, send)
            return
        request = Request(scope, receive)
        while (await receive()).get("more_body"):
            pass
        given = request.query_params
        screen = Screen(self._explorer, dict(given), given.getlist("via"))
        read_funnel(screen.detail.get("funnel", ""))
        panel: Any = SimpleNamespace(_screen=screen, _edges=[0, 10], _drawn=pa.table({"outcome": ["open"]}))
        CubePanel._asked_pivot(panel, {1: "a", 2: "b"})
        Timeline._asked_stretch(panel)
        ForecastPanel._first_rule(panel, [{"rule": "r", "predictions": 1}])
        ForecastPanel._first(panel)
        await PlainTextResponse("in")(scope, receive, send)


_doors: dict[Path, Door] = {}


def read_request(data: bytes, file: Path) -> None:
    """One that is answered, with anything but a fault of the server."""
    if file.parent not in _doors:
        _doors[file.parent] = Door(file.parent)
    said = _doors[file.parent].ask(data)
    status = said[9:12]
    assert status != b"500", said[:300]
    is_known = b"token=right" in data or b"seqube-1=right" in data
    assert is_known or status in (b"", b"403", b"400", b"431", b"101"), f"{status!r} without the token"


def requests() -> list[bytes]:
    cookie = b"Host: 127.0.0.1:1\r\nCookie: seqube-1=right\r\n"
    return [
        b"GET " + ADDRESS + b" HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
        b"GET " + DETAILS + b" HTTP/1.1\r\n" + cookie + b"Accept: */*\r\n\r\n",
        b"GET /export/7.csv HTTP/1.1\r\n" + cookie + b"Origin: http://127.0.0.1:1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + cookie + b"Content-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
        b"POST / HTTP/1.1\r\n" + cookie + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"GET /_nicegui_ws/socket.io/ HTTP/1.1\r\n"
        + cookie
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
        b"GET /?token=wrong HTTP/1.1\r\nHost: x\r\nOrigin: http://evil\r\nX-Forwarded-For: 1\r\n\r\n",
        b"HEAD / HTTP/1.0\r\n\r\n",
    ]


REQUEST_WORDS = [
    *("token=right", "token=", "&token=right&token=wrong", "%00", "%ff", "%u0041", "+", "&", "&&", "=", ";", "#", "?", "//", "/../../etc/passwd"),
    *("\r\n", "\n", "\r\n\r\n", "Cookie: seqube-1=right\r\n", "Cookie: seqube-1=\r\n", "Host: y\r\n", "Origin: http://[\r\n", "Origin: null\r\n"),
    *("Origin: http://127.0.0.1:1\r\n", "Origin: //127.0.0.1:1\r\n", "Content-Length: 99\r\n", "Content-Length: -1\r\n", "Expect: 100-continue\r\n"),
    *("Transfer-Encoding: chunked\r\n", "HTTP/1.0", "HTTP/2", "GET", "POST", "PUT", "CONNECT", "OPTIONS", "*", "/export/", ".csv", ".parquet"),
    *("funnel=", "pivot=", "between=", "at=", "rule=", "nan~inf", "1e999~2", "[[[[", "²", "%C2%B2", '{"without":{"2":5}}', "9" * 4_400, "[" * 5_000),
]  # fmt: skip


def make_request(known: list[bytes], chance: random.Random) -> bytes:
    texts = [each.decode("latin-1") for each in known]
    text = chance.choice(texts)
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        text = mutate(text, texts, REQUEST_WORDS, chance)
    data = text[:100_000].encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 1, 4])):
        data = spoil(data, chance)
    return data
