"""Memory of a server under mixed load for long: streams, some of which nobody reads, appends, reads and requests that make no sense."""

from __future__ import annotations

import json
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import median
from urllib.parse import urlsplit

from bench import mark
from bench.case import Case, Peak, Side, Skipped
from bench.place import TOPIC, Place
from bench.sizes import Sizes
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.server.spawned import SpawnedServer

STREAMS, STUCK = 300, 60  # open at once, and how many of them are never read
_KEPT = 20_000  # records that deletion leaves
_SEGMENT = 4 << 20
_WARM = 1 / 6  # of the time, before memory is called settled
_PAUSE = 0.05  # between two requests of one client
_LOOKS = 120  # at the server's memory
_TIMEOUT = 20.0
_PATIENCE = 120.0  # seconds until each kind of request was answered once
_BAD = [
    b"GET /log/absent/0/records HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /log/bench/7/records?from=-1&limit=zero HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /log/bench/0/records?from=99999999999 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"BREW /log/bench HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b'POST /log/bench/0/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"value":',
    b"POST /log/bench/0/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\nand then nothing",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHo",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET /log HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
]


def serving(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """What the server's process holds at the end, against what it holds once it has seen everything that is asked of it."""
    if not Path("/proc/self/status").exists():
        yield Skipped("serving, memory", "a process's memory is told by Linux only")
        return
    with place.sub("serving") as folder, EmbeddedLog(folder) as log:
        log.create_topic(TOPIC, settings=TopicSettings(segment=_SEGMENT))
        with SpawnedServer(folder) as server, Load(server.url, log) as load:
            notes: dict[str, object] = {"streams": STREAMS, "stuck": STUCK, "minutes": sizes.minutes}
            watch = Watch(server, load, sizes.minutes * 60, notes)
            yield Case(
                f"serving, memory after {sizes.minutes:g} minutes of {STREAMS} streams",
                "server",
                Side("at the end", watch.end),
                Side("after a sixth of the time", watch.warm),
                mark.memory(1.1),
                shown="memory",
                rounds=1,
                warm=False,
                notes=notes,
            )


class Watch:
    """Looks at the server's memory while the load goes on. `warm` comes first, `end` afterwards."""

    def __init__(self, server: SpawnedServer, load: Load, seconds: float, notes: dict[str, object]) -> None:
        self._server, self._load, self._seconds, self._notes = server, load, seconds, notes
        self._begun = 0.0
        self._looks: list[tuple[float, int, int]] = []  # seconds, own bytes, mapped bytes

    def warm(self) -> Peak:
        self._load.start()
        deadline = time.monotonic() + _PATIENCE
        while not all(self._load.done.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._begun = time.monotonic()  # from here on everything is under way
        return self._until(self._seconds * _WARM)

    def end(self) -> Peak:
        peak = self._until(self._seconds)
        self._notes["seconds, MiB, MiB with mapped files"] = [
            (round(at, 1), own >> 20, (own + mapped) >> 20) for at, own, mapped in self._looks
        ]
        self._notes["requests"] = dict(self._load.done)
        if not all(self._load.done.values()):
            raise Differs(f"Not everything was asked of the server: {self._load.done}.", hint="Look at its serve.err.")
        return peak

    def _until(self, seconds: float) -> Peak:
        """The middle of the last tenth of the looks up to then: a single one may meet a request under way."""
        while (now := time.monotonic() - self._begun) < seconds:
            self._looks.append((now, *_resident(self._server.pid)))
            if len(self._looks) % (_LOOKS // 10) == 1:
                at, own, mapped = self._looks[-1]
                print(f"  serving, {at:5.0f} s: {own >> 20} MiB, {(own + mapped) >> 20} with mapped files", file=sys.stderr, flush=True)
            time.sleep(min(self._seconds / _LOOKS, max(0.0, seconds - now)))
        self._looks.append((time.monotonic() - self._begun, *_resident(self._server.pid)))
        last = [own for _, own, _ in self._looks[-max(1, _LOOKS // 10) :]]
        return Peak(1, int(median(last)))


def _resident(pid: int) -> tuple[int, int]:
    """A process's bytes in memory that are its own, and those of mapped files, which are the system's cache."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        raise Differs("The server has ended.", hint="Look at its serve.err.") from None
    fields = {name: int(value.split()[0]) << 10 for name, _, value in (line.partition(":") for line in lines) if name.startswith("Rss")}
    return fields["RssAnon"] + fields["RssShmem"], fields["RssFile"]


class Load:
    """Clients of one server, in threads: each does one kind of thing, over and over, until it is left."""

    def __init__(self, url: str, log: EmbeddedLog) -> None:
        address = urlsplit(url)
        self._address, self._log, self._stop = (address.hostname or "", address.port or 0), log, threading.Event()
        self.done = dict.fromkeys(("appends", "direct appends", "reads", "bad requests", "events", "streams"), 0)
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._append, self._append_beside, self._read, self._bad, self._follow)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    # -- requests -------------------------------------------------------------------------------------------

    def _again(self, what: str, once: Callable[[Random], None]) -> None:
        random = Random(what)
        while not self._stop.wait(_PAUSE):
            with suppress(OSError):  # the server may cut off whoever behaves badly
                once(random)
                self.done[what] += 1

    def _ask(self, request: bytes) -> bytes:
        with socket.create_connection(self._address, timeout=_TIMEOUT) as client:
            client.sendall(request)
            received = b""
            while chunk := client.recv(1 << 16):
                received += chunk
        if not received.startswith(b"HTTP/1.1 2"):
            raise ConnectionError(received[:200])
        return received

    def _append(self) -> None:
        def once(random: Random) -> None:
            body = json.dumps([{"key": f"key-{random.randrange(100)}", "value": "x" * random.choice([10, 100, 5000])}] * 3).encode()
            head = f"POST /log/{TOPIC}/0/records HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
            self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

        self._again("appends", once)

    def _append_beside(self) -> None:
        """Another process's appends, some of them large; and old records go, so that the log stays as long as it is."""

        def once(random: Random) -> None:
            self._log.append(TOPIC, 0, [Record(b"key", b"x" * random.choice([100, 100, 1000, 50_000]))])
            bounds = self._log.bounds(TOPIC, 0)
            if bounds.end - bounds.start > 2 * _KEPT:
                self._log.delete_before(TOPIC, 0, bounds.end - _KEPT)

        self._again("direct appends", once)

    def _read(self) -> None:
        def once(random: Random) -> None:
            where = random.choice(["limit=10", "limit=1000&decode=json", "limit=100&decode=hex"])
            for path in (f"/log/{TOPIC}/0/records?{where}", f"/log/{TOPIC}", "/healthz", "/metrics"):
                self._ask(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())

        self._again("reads", once)

    def _bad(self) -> None:
        self._again("bad requests", lambda random: self._leave(random.choice(_BAD)))

    def _leave(self, request: bytes) -> None:
        """Send it, look at the beginning of an answer, if one comes soon, and go."""
        with socket.create_connection(self._address, timeout=0.2) as client:
            client.sendall(request)
            client.recv(4096)

    # -- streams --------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Keep the streams open: those that are read are read, and those that have ended are opened again."""
        selector = selectors.DefaultSelector()
        stuck: list[socket.socket] = []
        try:
            while not self._stop.wait(0.01):
                stuck = [connection for connection in stuck if not _ended(connection)]
                wanted = STREAMS - len(stuck) - len(selector.get_map())
                for _ in range(min(wanted, 20)):
                    with suppress(OSError):
                        never_read = len(stuck) < STUCK
                        stream = self._stream("?from=0" if never_read else "", 4096 if never_read else 0)
                        stuck.append(stream) if never_read else selector.register(stream, selectors.EVENT_READ)
                        self.done["streams"] += 1
                for key, _ in selector.select(0):
                    self._take(selector, key.fileobj)
        finally:
            for connection in [*stuck, *(key.fileobj for key in selector.get_map().values())]:
                connection.close()  # type: ignore[union-attr]
            selector.close()

    def _stream(self, query: str, buffer: int) -> socket.socket:
        client = socket.socket()
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(_TIMEOUT)
        try:
            client.connect(self._address)
            client.sendall(f"GET /log/{TOPIC}/0/records{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode())
        except OSError:
            client.close()
            raise
        client.setblocking(False)
        return client

    def _take(self, selector: selectors.BaseSelector, stream: object) -> None:
        assert isinstance(stream, socket.socket)
        chunk = b""
        with suppress(OSError):
            chunk = stream.recv(1 << 16)
        if chunk:
            self.done["events"] += chunk.count(b"\nid: ")
        else:
            selector.unregister(stream)
            stream.close()


def _ended(stream: socket.socket) -> bool:
    """Whether the server has cut off a stream that nobody reads. Its state is asked for: reading would unstick it."""
    state = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    ended = state != 1  # TCP_ESTABLISHED
    if ended:
        stream.close()
    return ended
