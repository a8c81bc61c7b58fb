"""What waiting costs when nothing comes, and how soon a reader has what does come."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.place import TOPIC, Place, records
from bench.sizes import Sizes
from headwater.core.errors import Unavailable
from headwater.log.embedded.log import EmbeddedLog
from headwater.server.spawned import SpawnedServer

QUIET = "quiet"  # the topic that the idle streams follow
_SETTLE = 5.0  # seconds in which what a process does at its start comes to its end
_PACE = 0.005  # seconds between two appends
_NAP = "import time\nwhile True: time.sleep(0.1)"
_SINKS = 5
_PATIENCE = 120.0
_PROGRAM = [sys.executable, "-m", "headwater.cli"]


def waiting(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Processor time per second of waiting, and the time from a record's durability to its reader beside streams that wait."""
    yield _tail(place, sizes)
    yield _pipeline(place, sizes)
    needed = 2 * sizes.streams + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        if soft < needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
    except (OSError, ValueError):
        yield Skipped(f"waiting, {sizes.streams} streams", f"{needed} open files are not allowed here: raise `ulimit -n`.")
        return
    with place.sub("waiting") as folder:
        with EmbeddedLog(folder) as log:
            for topic in (TOPIC, QUIET):
                log.create_topic(topic)
                log.append(topic, 0, records(1))
        with SpawnedServer(folder) as server, EmbeddedLog(folder) as log:
            yield from _streams(server, log, sizes)


# -- what waiting costs -------------------------------------------------------------------------------------------


def _tail(place: Place, sizes: Sizes) -> Case:
    def ours() -> Sample:
        with place.log("tail") as log:
            log.append(TOPIC, 0, records(1))
            command = [*_PROGRAM, "log", "tail", TOPIC, "--from", "0", "--data", str(log.data)]
            return spent(command, log.data, lambda: (log.data / "out").stat().st_size > 0, sizes.idle)

    return Case(
        "waiting, idle tail",
        "second",
        Side("headwater log tail", ours),
        Side("a process that wakes each 100 ms", lambda: nap(place, sizes)),
        mark.time(0.005, "≤ 5 ms of a processor per second (0.5 %)"),
        shown="time",
        rounds=sizes.rare,
        warm=False,
    )


def _pipeline(place: Place, sizes: Sizes) -> Case:
    def ours() -> Sample:
        with place.log("pipeline") as log:
            log.append(TOPIC, 0, records(1))
            program = log.data / "idle.py"
            program.write_text(
                "from headwater.pipeline import Pipeline\n"
                "from headwater.pipeline.adaptors import file, headwater\n"
                "p = Pipeline('idle')\n"
                f"rows = p.source('from', headwater({str(log.data)!r}, topic={TOPIC!r}, format='bytes'))\n"
                + "".join(f"rows.save('s{n}', file('sink-{n}/'))\n" for n in range(_SINKS))
            )
            command = [*_PROGRAM, "pipeline", "run", str(program), "--follow", "--data", str(log.data / "own")]
            return spent(command, log.data, lambda: len(list(log.data.glob("sink-*/*"))) >= _SINKS, sizes.idle)

    return Case(
        f"waiting, idle pipeline, {_SINKS} sinks",
        "second",
        Side("headwater pipeline run --follow", ours),
        Side("a process that wakes each 100 ms", lambda: nap(place, sizes)),
        mark.time(0.010, "≤ 10 ms of a processor per second (1 %)"),
        shown="time",
        rounds=sizes.rare,
        warm=False,
    )


def nap(place: Place, sizes: Sizes) -> Sample:
    with place.sub("nap") as folder:
        return spent([sys.executable, "-c", _NAP], folder, lambda: True, sizes.idle)


def spent(
    command: list[str], folder: Path, ready: Callable[[], bool], seconds: float, look: Callable[[int], None] = lambda pid: None
) -> Sample:
    """Processor time that a process takes in so many seconds, once it is ready. `look` gets its number at the end of them."""
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"What was to wait did not: {(folder / 'err').read_text()[-500:]}", hint="Run it by hand to see why.")
            time.sleep(0.05)
        time.sleep(min(_SETTLE, seconds))
        sample = _share(process.pid, seconds)
        look(process.pid)
        return sample
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _share(pid: int, seconds: float) -> Sample:
    before = _processor(pid)
    time.sleep(seconds)
    return Sample(seconds, max(_processor(pid) - before, 1e-6))


def _processor(pid: int) -> float:
    """Seconds of processor that the threads of a process have taken. Errors: `Unavailable` when it has ended."""
    try:
        return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    except OSError:
        raise Unavailable("What was to wait has ended.", hint="Run it by hand to see why.") from None


# -- streams ------------------------------------------------------------------------------------------------------


def _streams(server: SpawnedServer, log: EmbeddedLog, sizes: Sizes) -> Iterator[Case]:
    def share(streams: int) -> Callable[[], Sample]:
        def run() -> Sample:
            with _open(server.url, QUIET, streams):
                time.sleep(min(_SETTLE, sizes.idle))
                return _share(server.pid, sizes.idle)

        return run

    yield Case(
        f"waiting, {sizes.streams} idle streams",
        "second",
        Side("server", share(sizes.streams)),
        Side("the server without streams", share(0)),
        mark.time(0.050, "≤ 50 ms of a processor per second (5 %)"),
        shown="time",
        rounds=sizes.rare,
        warm=False,
    )
    for name, share_of, most in (("p50", 0.50, 0.002), ("p99", 0.99, 0.010)):

        def latency(streams: int, share_of: float = share_of) -> Callable[[], Sample]:
            def run() -> Sample:
                with _open(server.url, QUIET, streams), _open(server.url, TOPIC, 1) as (reader,):
                    time.sleep(min(_SETTLE, sizes.idle))
                    times = sorted(_delay(log, reader) for _ in range(sizes.delays))
                    return Sample(1, times[int(len(times) * share_of)])

            return run

        yield Case(
            f"waiting, durable to reader, {name}",
            "record",
            Side(f"beside {sizes.streams} idle streams", latency(sizes.streams)),
            Side("alone", latency(0)),
            mark.time(most, f"≤ {most * 1000:g} ms"),
            shown="time",
            rounds=sizes.rare,
            warm=False,
        )


def _delay(log: EmbeddedLog, reader: socket.socket) -> float:
    """Seconds from the return of an append in this process to its event in a stream of the server's."""
    time.sleep(_PACE)
    log.append(TOPIC, 0, records(1))
    durable = time.perf_counter()
    received = b""
    while b"\n\n" not in received.partition(b"id: ")[2]:
        received += reader.recv(65536)
    return time.perf_counter() - durable


@contextmanager
def _open(url: str, topic: str, count: int) -> Iterator[list[socket.socket]]:
    """So many streams of a topic from its end on, each of which has been answered."""
    address = urlsplit(url)
    request = f"GET /log/{topic}/0/records HTTP/1.1\r\nHost: {address.netloc}\r\nAccept: text/event-stream\r\n\r\n".encode()
    streams: list[socket.socket] = []
    try:
        for _ in range(count):
            stream = socket.create_connection((address.hostname, address.port), timeout=60)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.sendall(request)
            streams.append(stream)
        for stream in streams:
            received = b""
            while b"retry: " not in received:
                chunk = stream.recv(65536)
                if not chunk or not received.startswith(b"HTTP/1.1 200"[: len(received)]):
                    raise Unavailable(f"A stream was refused: {received[:200]!r}", hint="Look at the server's limits.")
                received += chunk
        yield streams
    finally:
        for stream in streams:
            stream.close()
