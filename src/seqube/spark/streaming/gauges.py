"""What a pipeline counts, at a port: a page of plain text that Prometheus reads.

    seqube_rows_total{kind="read"} 900            since this process started
    seqube_matches_total{query="pairs"} 12
    seqube_batch 7                                of the last micro-batch, as are the state and the lag

The page is made when it is asked for, from the last counts; a micro-batch never waits for whoever asks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seqube.errors import DataError

_ROWS = ("read", "used", "irrelevant", "late", "quarantined", "null_keys")
_LAST = ("watermark_lag_seconds", "duration_ms", "rows_per_second", "state_rows", "state_bytes", "plan_switches")


class Gauges:
    """Serves the counts of a pipeline until it is closed."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.text = "\n"
        page = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page.text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *said: Any) -> None:
                """Nobody wants to read who asked."""

        try:
            self._server = ThreadingHTTPServer((host, port), Page)
        except OSError as error:
            raise DataError(f"metrics cannot be served at port {port}: {error.strerror}\n  hint: another port, or none") from error
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="seqube metrics", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def show(self, number: int, total: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        """Say what there is to say after a micro-batch."""
        self.text = "\n".join(_lines(number, total, last)) + "\n"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _lines(number: int, total: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[str]:
    yield "# TYPE seqube_rows_total counter"
    for name in _ROWS:
        if total.get(name) is not None:
            yield f'seqube_rows_total{{kind="{name}"}} {total[name]}'
    yield "# TYPE seqube_matches_total counter"
    for query, n in (total.get("matches") or {}).items():
        yield f'seqube_matches_total{{query="{query}"}} {n}'  # names of queries hold no quotes
    yield "# TYPE seqube_forecasts_total counter"
    yield f"seqube_forecasts_total {total.get('forecasts') or 0}"
    yield "# TYPE seqube_batch gauge"
    yield f"seqube_batch {number}"
    for name in _LAST:
        if last.get(name) is not None:
            yield f"# TYPE seqube_{name} gauge"
            yield f"seqube_{name} {last[name]}"
