"""Many clients that follow one document: how soon each has a change, and what each takes in memory while nothing comes."""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench import mark
from bench.case import Case, Peak, Sample, Side, Skipped
from bench.documents.fan_out import FanOut
from bench.documents.http_clients import answered, connected, request
from bench.documents.verbs import BODY, CONTENT
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import Differs, Unavailable
from headwater.server.spawned import SpawnedServer

_DOCUMENT = "bench/followed"
_PUT = request("PUT", f"{CONTENT}/{_DOCUMENT}", BODY)
_FOLLOW = request("GET", f"/hyper-storage/feed/{_DOCUMENT}", headers="Accept: text/event-stream\r\n")
_ACCEPTED = b"retry: "  # what a stream begins with
_CHANGES = 20  # of a round, each seen by all
_PATIENCE = 120.0
_SETTLE = 1.0  # seconds in which what opening streams leaves behind is done


def followers(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Both sides sync what is put before they tell anybody; the clients are this process."""
    streams, needed = sizes.streams, 2 * sizes.streams + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        if soft < needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(needed, hard)))
    except (OSError, ValueError):
        yield Skipped(f"documents, {streams} followers", f"{needed} open files are not allowed here: raise `ulimit -n`.")
        return
    with place.sub("followers") as folder, SpawnedServer(folder / "data") as server:
        event = _event(server.url)
        with FanOut.started(folder, event) as bare:
            changes = min(_CHANGES, sizes.delays)
            yield Case(
                f"documents, from a PUT to {streams} followers, p99",
                "change",
                Side("feed", partial(_p99, server.url, streams, changes)),
                Side(f"a sync, and {len(event)} bytes to as many sockets", partial(_p99, bare.url, streams, changes)),
                mark.slowdown(2),
                shown="time",
                rounds=sizes.few,
            )
    with place.sub("idle") as folder:
        yield Case(
            f"documents, memory per idle follower, {streams} of them",
            "follower",
            Side("feed", lambda: _held_by_server(folder, streams)),
            Side("a bare connection", lambda: _held_by_bare(folder, streams)),
            mark.size(20 << 10),
            shown="bytes",
            rounds=1,
            warm=False,
        )


# -- how soon -----------------------------------------------------------------------------------------------------


def _p99(url: str, streams: int, changes: int) -> Sample:
    """The time in which 99 of 100 followers have a change, from the sending of its PUT on."""
    times: list[float] = []
    with _following(url, streams) as followers, connected(url) as writer:
        answered(writer, _PUT)
        _received(followers)
        for _ in range(changes):
            begun = time.perf_counter()
            writer.sendall(_PUT)
            times += [at - begun for at in _received(followers)]
            _read_answer(writer)
    times.sort()
    return Sample(1, times[int(len(times) * 0.99)])


def _received(followers: list[socket.socket]) -> list[float]:
    """When each of them had its event. Errors: `Unavailable`."""
    poll, waiting = select.epoll(), {follower.fileno(): follower for follower in followers}
    parts, times, clock = dict.fromkeys(waiting, b""), list[float](), time.perf_counter
    try:
        for descriptor in waiting:
            poll.register(descriptor, select.EPOLLIN)
        while len(times) < len(followers):
            ready = poll.poll(_PATIENCE)
            if not ready:
                raise Unavailable(f"{len(followers) - len(times)} followers saw nothing.", hint="See what the server said.")
            for descriptor, _ in ready:
                chunk = waiting[descriptor].recv(65536)
                if not chunk:
                    raise Unavailable("A stream has ended.", hint="See what the server said.")
                parts[descriptor] += chunk
                if _is_whole(parts[descriptor]):
                    times.append(clock())
        return times
    finally:
        poll.close()


def _is_whole(received: bytes) -> bool:
    return b"\n\n" in received.partition(b"data: ")[2]


def _read_answer(writer: socket.socket) -> None:
    line = writer.recv(65536)
    if not line.startswith(b"HTTP/1.1 2"):
        raise Differs(f"A PUT was not done: {line[:300]!r}.", hint="See what the server said.")


def _event(url: str) -> bytes:
    """The bytes of an event of this document's feed."""
    with connected(url) as writer:
        answered(writer, _PUT)
        with _following(url, 1) as (follower,):
            answered(writer, _PUT)
            received = b""
            while not _is_whole(received):
                chunk = follower.recv(65536)
                if not chunk:
                    raise Unavailable("A stream has ended.", hint="See what the server said.")
                received += chunk
            return received


@contextmanager
def _following(url: str, count: int) -> Iterator[list[socket.socket]]:
    """So many streams, each of which has been answered. Errors: `Unavailable`."""
    streams: list[socket.socket] = []
    try:
        for _ in range(count):
            stream = connected(url)
            streams.append(stream)
            stream.sendall(_FOLLOW)
        for stream in streams:
            received = b""
            while _ACCEPTED not in received:
                chunk = stream.recv(65536)
                received += chunk
                if not chunk or not received.startswith(b"HTTP/1.1 200"[: len(received)]):
                    raise Unavailable(f"A stream was refused: {received[:200]!r}", hint="Look at the server's limits.")
        yield streams
    finally:
        for stream in streams:
            stream.close()


# -- what it holds ------------------------------------------------------------------------------------------------


def _held_by_server(folder: Path, streams: int) -> Peak:
    with SpawnedServer(folder / "data") as server:
        with connected(server.url) as writer:
            answered(writer, _PUT)
        return _held(server.url, streams, lambda: _resident(server.pid))


def _held_by_bare(folder: Path, streams: int) -> Peak:
    with FanOut.started(folder, b"") as bare:
        return _held(bare.url, streams, lambda: _resident(bare.pid))


def _held(url: str, streams: int, resident: Callable[[], int]) -> Peak:
    with _following(url, 1):
        before = resident()
        with _following(url, streams):
            time.sleep(_SETTLE)
            return Peak(streams, max(1, resident() - before))


def _resident(pid: int) -> int:
    """A process's bytes in memory, without the pages of mapped files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
