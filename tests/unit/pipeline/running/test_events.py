"""What a run tells while it goes, written to a file or sent to an address."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headwater.pipeline.running.events import RunEvent, to_address, to_file

EVENT = RunEvent(kind="metrics", at=5, pipeline="p", path="shop/search", details={"records": 7})


def test_a_file_has_a_line_for_each_event(tmp_path: Path) -> None:
    path = tmp_path / "events"
    for listener in (to_file(path), to_file(path)):  # another run adds to it
        listener(EVENT)
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first == second
    assert (first["kind"], first["path"], first["details"]) == ("metrics", "shop/search", {"records": 7})


def test_an_address_is_sent_each_event_and_one_that_fails_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204 if len(bodies) < 2 else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        send = to_address(f"http://127.0.0.1:{server.server_port}/events")
        with caplog.at_level(logging.WARNING, logger="headwater.pipeline"):
            for _ in range(3):
                send(EVENT)
    finally:
        server.shutdown()
        server.server_close()
    assert [json.loads(body)["pipeline"] for body in bodies] == ["p"] * 3
    assert len(caplog.records) == 1
