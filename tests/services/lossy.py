"""A server in front of another that loses what a test tells it to lose."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fate = Literal["whole", "cut", "lost", "busy"]  # of an answer; lost: the request was done all the same; busy: it was not
BUSY = b"<Error><Code>OperationAborted</Code><Message>A conflicting operation is in progress.</Message></Error>"


@contextmanager
def lossy(address: str, fate: Callable[[str, str], Fate]) -> Iterator[str]:
    """The address to use in place of `address`. `fate` is asked with the method and the path of every request."""
    behind = urlsplit(address)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = fate(self.command, self.path)
            self.close_connection = True
            if what == "busy":
                self.wfile.write(b"HTTP/1.1 409 Conflict\r\nContent-Type: application/xml\r\nConnection: close\r\n")
                self.wfile.write(b"Content-Length: %d\r\n\r\n" % len(BUSY) + BUSY)
                return
            link = http.client.HTTPConnection(behind.hostname or "", behind.port or 80, timeout=30)
            try:
                link.request(self.command, self.path, body, {name: value for name, value in self.headers.items() if name != "Expect"})
                answer = link.getresponse()
                data = answer.read()
            finally:
                link.close()
            if what == "lost":
                return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length or "0")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if what == "cut" else data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 (names of the library)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
