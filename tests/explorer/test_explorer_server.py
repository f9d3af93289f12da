"""The door: nobody without the token, no other page, no path that leads out; and a worker that can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

import seqube as sq
from browsing import home, serve
from seqube.errors import QueryError
from seqube.explorer.jobs import Desk
from seqube.explorer.page import Explorer, Screen
from seqube.explorer.server import HEADERS, LARGEST_REQUEST, Guard
from seqube.explorer.sources import Source, generated
from seqube.explorer.worker import Worker

TOKEN = "right"


async def answer(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"in"})  # type: ignore[operator]


def knock(path: str = "/", **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=Guard(answer, TOKEN, "seqube-1"))  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def test_without_the_token_nothing_is_given() -> None:
    for path in ("/", "/?token=wrong", "/?token=", "/export/x.csv", "/_nicegui_ws/socket.io/", "/seqube/editor.js"):
        assert knock(path).status_code == 403
    assert knock(cookie="seqube-1=wrong").status_code == 403
    assert knock(cookie="seqube-2=right").status_code == 403


def test_no_request_is_larger_than_a_file_may_be() -> None:
    """By what it says, and by what it sends: one that says nothing, or too little, is cut off."""
    got: list[int] = []

    async def swallow(scope: dict, receive: Any, send: Any) -> None:  # type: ignore[type-arg]
        n_bytes = 0
        while (message := await receive())["type"] == "http.request":
            n_bytes += len(message["body"])
            if not message.get("more_body"):
                break
        got.append(n_bytes)

    async def ask(*headers: tuple[bytes, bytes]) -> list[dict[str, Any]]:
        piece = {"type": "http.request", "body": bytes(2**24), "more_body": True}
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return piece

        async def send(message: Any) -> None:
            sent.append(message)

        known = [(b"cookie", b"seqube-1=right"), *headers]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": known}
        await Guard(swallow, TOKEN, "seqube-1")(scope, receive, send)  # type: ignore[arg-type]
        return sent

    for length in (b"999999999999", b"-1", b"many"):
        assert asyncio.run(ask((b"content-length", length)))[0]["status"] == 413
    assert got == []
    asyncio.run(ask())
    asyncio.run(ask((b"content-length", b"10")))
    assert len(got) == 2
    assert max(got) <= LARGEST_REQUEST


def megabytes(pid: int, what: str = "VmRSS") -> int:
    found = re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) // 1024


@pytest.mark.slow
def test_fifty_browsers_slow_clients_and_wrong_tokens_leave_it_bounded_and_closed() -> None:
    """What a crowd asks for is answered or refused; afterwards the page is there as before, and memory has a bound."""

    async def crowd(address: str) -> None:
        async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=50)) as client:
            for n in range(4):
                wrong = [client.get(home(address), params={"token": f"{n} {k}"}) for k in range(250)]
                assert {answer.status_code for answer in await asyncio.gather(*wrong)} == {403}
            await client.get(address)  # the cookie
            for _ in range(3):
                pages = await asyncio.gather(*(client.get(home(address)) for _ in range(50)))
                assert {answer.status_code for answer in pages} == {200}

    with serve() as address:
        (pid,) = children_of(os.getpid(), "explore")
        before = megabytes(pid)
        asyncio.run(crowd(address))
        where = urlsplit(address)
        slow = [socket.create_connection((str(where.hostname), where.port or 0)) for _ in range(100)]
        for door in slow:
            door.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert httpx.get(home(address), timeout=60).status_code == 403
        for door in slow:
            door.close()
        endless = b"GET / HTTP/1.1\r\nHost: x\r\nX-Endless: " + b"a" * 2**26
        with socket.create_connection((str(where.hostname), where.port or 0)) as door, pytest.raises(ConnectionError):
            door.sendall(endless)
        assert megabytes(pid) < before + 400
        assert httpx.get(address, timeout=60).status_code == 303


@pytest.mark.slow
def test_huge_uploads_at_once_take_no_memory() -> None:
    """Three of 300 MB are taken, and lie on the disk; those that are larger than a file may be are refused or cut off."""

    async def sending(n_megabytes: int) -> AsyncIterator[bytes]:
        yield b'--cut\r\nContent-Disposition: form-data; name="file"; filename="huge.csv"\r\n\r\ntype,ts\n'
        for _ in range(n_megabytes):
            yield b"A,1\n" * 2**18
        yield b"\r\n--cut--\r\n"

    async def send(client: httpx.AsyncClient, to: str, n_megabytes: int) -> int:
        headers = {"content-type": "multipart/form-data; boundary=cut"}
        return (await client.post(to, content=sending(n_megabytes), headers=headers)).status_code

    async def upload(address: str) -> None:
        async with httpx.AsyncClient(timeout=300, follow_redirects=True) as client:
            page = (await client.get(address)).text
            found = re.search(r"/_nicegui/client/[0-9a-f-]+/upload/\d+", page)
            assert found
            to = home(address).rstrip("/") + found[0]
            async with httpx.AsyncClient(timeout=60) as stranger:
                assert await send(stranger, to, 1) == 403
            assert await asyncio.gather(*(send(client, to, 300) for _ in range(3))) == [200] * 3
            where = urlsplit(to)
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
            told = [
                f"POST {where.path} HTTP/1.1",
                f"Host: {where.netloc}",
                f"Cookie: {cookie}",
                f"Content-Length: {LARGEST_REQUEST + 1}",
            ]
            writer.write("\r\n".join([*told, "", ""]).encode())
            assert b" 413 " in await reader.readline()
            writer.close()
            with contextlib.suppress(httpx.HTTPError):  # it says nothing of its length, and the door is shut meanwhile
                assert await send(client, to, 600) >= 400
            assert (await client.get(home(address))).status_code == 200

    with serve() as address:
        (pid,) = children_of(os.getpid(), "explore")
        before = megabytes(pid)
        asyncio.run(upload(address))
        assert megabytes(pid, "VmHWM") < before + 250


def children_of(pid: int, word: str) -> list[int]:
    """The processes that this one started, by a word of their command."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and word in (each / "cmdline").read_text().split("\0"):
                    found.append(int(each.name))
    return found


def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    first = knock("/?data=x&token=right&view=cube")
    assert (first.status_code, first.headers["location"]) == (303, "/?data=x&view=cube")
    assert "seqube-1=right; HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=strict" in first.headers["set-cookie"]
    assert knock(cookie="seqube-1=right").text == "in"


def test_another_page_is_refused_even_with_the_cookie() -> None:
    assert knock(cookie="seqube-1=right", origin="http://127.0.0.1:9999").status_code == 403
    assert knock(cookie="seqube-1=right", origin="http://127.0.0.1:1").status_code == 200


def test_every_answer_has_the_headers() -> None:
    for response in (knock(), knock(cookie="seqube-1=right"), knock("/?token=right")):
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "connect-src 'self'" in HEADERS["Content-Security-Policy"]


def test_a_web_socket_needs_the_token_too() -> None:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/_nicegui_ws/socket.io/", "query_string": b"", "headers": []}
    asyncio.run(Guard(answer, TOKEN, "seqube-1")(scope, receive, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


# ---------------------------------------------------------------- the real server


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "seqube", "explore", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=os.environ | {"TMPDIR": str(folder)})
    assert server.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S{32}", server.stdout.readline())
    assert found
    yield found[0]
    server.terminate()
    server.wait(30)
    assert list(folder.iterdir()) == []  # no file is left behind


def test_the_server_gives_its_page_and_nothing_else(address: str) -> None:
    place = urlsplit(address)
    with httpx.Client(base_url=f"http://{place.netloc}", follow_redirects=True) as client:
        assert client.get("/").status_code == 403
        page = client.get(address)
        assert page.status_code == 200
        assert "Seqube explorer" in page.text
        outside = [host for host in re.findall(r"(?:src|href)=[\"']?(?:https?:)?//([\w.:-]+)", page.text) if host != place.netloc]
        assert outside == []
        assert client.get("/seqube/editor.js").status_code == 200
        for path in (
            "/export/..%2f..%2fetc%2fpasswd",
            "/export/../../etc/passwd.csv",
            "/seqube/../server.py",
            "/export/0.csv",
            "/docs",
        ):
            assert client.get(path).status_code == 404


def test_wrong_usage_is_told(tmp_path: Path) -> None:
    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "seqube", "explore", *options], capture_output=True, text=True, check=False)

    missing = run("--events", str(tmp_path / "none.csv"))
    assert missing.returncode == 1
    assert "no such file" in missing.stderr
    assert run("--bad").returncode == 2


# ---------------------------------------------------------------- the worker


def test_a_job_can_be_stopped_and_the_next_one_is_right(tmp_path: Path) -> None:
    stock = next(source for source in generated() if source.kind == "stock")

    async def work() -> tuple[int, int]:
        worker = Worker(stock)
        try:
            opened = await worker.do("open")
            long = asyncio.ensure_future(
                worker.do(
                    "run",
                    text="SEQ(Computer a, Finance b, Education c, Hardware d) WITHIN 2 s AGG COUNT(*) AS n",
                    strategy="two-step",  # builds 130 billion matches, and would go on for minutes
                    out=tmp_path / "a",
                )
            )
            await asyncio.sleep(0.5)
            long.cancel()
            with pytest.raises(asyncio.CancelledError):
                await long
            ran = await worker.do("run", text="SEQ(DELL a, QQQ b) WITHIN 20 ms", strategy="auto", out=tmp_path / "b")
            return opened.n_events, ran.n_rows
        finally:
            worker.stop()

    n_events, n_rows = asyncio.run(work())
    assert n_events == 100_000
    assert n_rows == len(sq.run("SEQ(DELL a, QQQ b) WITHIN 20 ms", stock.read()))


def test_a_mistake_comes_back_as_it_was_and_the_worker_goes_on(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"type": ["A", "B"], "ts": [1, 2]}), tmp_path / "few.parquet")

    async def work() -> int:
        worker = Worker(Source("few", tmp_path / "few.parquet"))
        try:
            with pytest.raises(QueryError, match="no column 'x'"):
                await worker.do("run", text="SEQ(A a, B b, a.x = 1) WITHIN 5", strategy="auto", out=tmp_path / "a")
            ran = await worker.do("run", text="SEQ(A a, B b) WITHIN 5", strategy="auto", out=tmp_path / "b")
            return int(ran.n_rows)
        finally:
            worker.stop()

    assert asyncio.run(work()) == 1


# ---------------------------------------------------------------- what a query can reach


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, a.x = __import__('os').system('touch caught')) WITHIN 5",
        "SEQ(A a, B b) WHERE open('few.parquet') IS NULL WITHIN 5",
        "SEQ(A a, B b) WHERE a.__class__ = 1 WITHIN 5",
        "SEQ(A a, B b) WITHIN 5 RETURN read_csv('few.parquet') AS stolen",
        "few.parquet WITHIN 5",
    ],
)
def test_a_query_can_neither_run_code_nor_read_files(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query is a text, wherever it looks like a program or a path; the desk has no other way in."""
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.table({"type": ["A", "B"], "ts": [1, 2], "x": [1, 1]}), tmp_path / "few.parquet")
    with pytest.raises(QueryError):
        Desk(Source("few", tmp_path / "few.parquet")).run(text, "auto", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"few.parquet"}


def test_an_address_opens_no_file(tmp_path: Path) -> None:
    """The events that an address names are those of the command line, by their names."""
    parquet.write_table(pa.table({"type": ["A"], "ts": [1]}), tmp_path / "secret.parquet")
    explorer = Explorer(generated(), tmp_path)
    for name in (str(tmp_path / "secret.parquet"), "../secret.parquet", "secret.parquet", ""):
        screen = Screen(explorer, {"data": name, "view": "../x", "strategy": "open('x')"}, [])
        assert screen.source in explorer.sources.values()
        assert (screen.source.path, screen.view, screen.strategy) == (None, "query", "auto")


def test_other_interfaces_need_the_token_too() -> None:
    with serve("--host", "0.0.0.0") as address:
        found = re.fullmatch(r"http://0\.0\.0\.0:(\d+)/\?token=(\S{32})", address)
        assert found
        place = f"http://127.0.0.1:{found[1]}/"
        for path in ("", "?token=", "?token=wrong", "seqube/editor.js", "export/x.csv"):
            assert httpx.get(place + path).status_code == 403
        assert httpx.get(f"{place}?token={found[2]}").status_code == 303
