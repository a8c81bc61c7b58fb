"""Clients that cost little beside the server: ready requests over connections that stay, one request under way on each."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.case import Sample
from headwater.core.errors import Differs, Unavailable

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_CHUNK = 1 << 16
_PATIENCE = 60.0
Processor = Callable[[], float]


class Answer(NamedTuple):
    """The first line of an answer, and its body."""

    line: bytes
    body: bytes


def request(method: str, path: str, body: bytes = b"", *, headers: str = "") -> bytes:
    """A whole request. `headers`: further ones, each with its line end."""
    kind = "Content-Type: application/json\r\n" if body else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def connected(url: str) -> socket.socket:
    """A connection to a server, which sends at once. `url`: or the path of a Unix socket. Errors: `Unavailable`."""
    address = urlsplit(url)
    try:
        if not address.scheme:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(_PATIENCE)
            with _short(Path(url)) as short:  # an address holds 107 bytes
                connection.connect(short)
            return connection
        connection = socket.create_connection((address.hostname, address.port), timeout=_PATIENCE)
    except OSError as problem:
        raise Unavailable(f"{url} does not answer: {problem}", hint="See whether the server has ended.") from problem
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A short address of a Unix socket."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def answered(connection: socket.socket, asked: bytes) -> Answer:
    """Send a request, and wait for the whole answer, which has a length. Errors: `Unavailable`."""
    connection.sendall(asked)
    received = b""
    while not (size := _whole(received)):
        chunk = connection.recv(_CHUNK)
        if not chunk:
            raise Unavailable(f"The server ended the connection after {received[:200]!r}.", hint="See what it said.")
        received += chunk
    head, _, body = received[:size].partition(_END)
    return Answer(head.partition(b"\r\n")[0], body)


class HttpClients:
    """So many connections to one server, made anew for each round: a server may end those that idle.

    `processor`: the seconds that the server has had a processor.
    """

    def __init__(self, url: str, connections: int, processor: Processor) -> None:
        self._url, self._count, self._processor = url, connections, processor

    def round(self, requests: Sequence[bytes], count: int) -> Sample:
        """So many requests, the ready ones in turns. The processor time is that of the server alone.

        Errors: `Differs` where an answer is no success.
        """
        connections = [connected(self._url) for _ in range(self._count)]
        try:
            before, begun = self._processor(), time.perf_counter()
            if self._count == 1:
                _in_turn(connections[0], requests, count)
            else:
                _at_once(connections, requests, count)
            return Sample(count, time.perf_counter() - begun, self._processor() - before)
        finally:
            for connection in connections:
                connection.close()

    def by_processor(self, requests: Sequence[bytes], count: int) -> Sample:
        """The same; the seconds are those that the server had a processor."""
        return Sample(count, max(self.round(requests, count).cpu, 1e-9))


def _in_turn(connection: socket.socket, requests: Sequence[bytes], count: int) -> None:
    for number in range(count):
        line = answered(connection, requests[number % len(requests)]).line
        if not line.startswith(b"HTTP/1.1 2"):
            raise _refused(line)


def _at_once(connections: Sequence[socket.socket], requests: Sequence[bytes], count: int) -> None:
    poll, kinds, sent, done = select.epoll(), len(requests), 0, 0
    waiting = {connection.fileno(): connection for connection in connections}
    received = dict.fromkeys(waiting, b"")
    try:
        for descriptor, connection in waiting.items():
            if sent < count:
                poll.register(descriptor, select.EPOLLIN)
                connection.sendall(requests[sent % kinds])
                sent += 1
        while done < count:
            ready = poll.poll(_PATIENCE)
            if not ready:
                raise Unavailable(f"{count - done} requests were not answered.", hint="See what the server said.")
            for descriptor, _ in ready:
                connection = waiting[descriptor]
                chunk = connection.recv(_CHUNK)
                answer = received[descriptor] + chunk
                if not chunk or not answer.startswith(b"HTTP/1.1 2"[: len(answer)]):
                    raise _refused(answer)
                if not _whole(answer):
                    received[descriptor] = answer
                    continue
                received[descriptor] = b""
                done += 1
                if sent < count:
                    connection.sendall(requests[sent % kinds])
                    sent += 1
    finally:
        poll.close()


def _whole(received: bytes) -> int:
    """The size of the answer at the front, once all of it is there; 0 before."""
    end = received.find(_END)
    if end < 0:
        return 0
    head = received[:end].lower()
    at = head.find(_LENGTH)
    size = end + len(_END)
    if at >= 0:
        size += int(head[at + len(_LENGTH) :].partition(b"\r")[0])
    return size if len(received) >= size else 0


def _refused(answer: bytes) -> Differs:
    return Differs(f"A request was not done: {answer[:300]!r}.", hint="See what the server said.")


def threads_time(pid: int) -> float:
    """Seconds that the threads of a process have run: the scheduler's own count, in nanoseconds."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
