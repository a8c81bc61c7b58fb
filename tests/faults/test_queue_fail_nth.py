"""A queue on a disk that fails: at every call in turn, for once or for good, and in a process that is killed at every moment."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.disposal import Disposal
from headwater.core.errors import Conflict, HeadwaterError, NotFound
from headwater.core.timers import Timers
from headwater.core.units import Size
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.queue import carry
from headwater.queue.data_place import LARGE
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim, RowResult
from headwater.testing.clock import ManualClock
from headwater.testing.faults import DyingFiles, FailingFiles
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("queue", 1)
STEPS = 40
SETTINGS = EffectiveSettings(memory=Size(0))
LARGE_ROWS = pytest.mark.parametrize("large", [LARGE, 0], ids=["in memory", "on the log"])
EVERY = 1 if os.environ.get("SOAK_INJECTIONS") == "all" else 11
SHORT = b"short "  # begins the keys of rows that expire; nobody compares them
Held = tuple[bytes | None, bytes | None]  # the data of a key's row, and those of its follow-up


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry rows forward after a few records."""
    monkeypatch.setattr(carry, "SPARE_RECORDS", 4)


class Expected:
    """What each key may hold: one thing, or several after a call whose outcome nobody knows."""

    def __init__(self) -> None:
        self.keys: dict[bytes, set[Held]] = defaultdict(lambda: {(None, None)})
        self.results: dict[int, bytes] = {}  # of rows whose done was acknowledged
        self.tried: dict[int, set[bytes]] = defaultdict(set)  # of those that somebody has said to be done, acknowledged or not

    def put(self, key: bytes, data: bytes, outcome: str | None) -> None:
        held = self.keys[key]
        now: set[Held] = set()
        if outcome in (None, "inserted"):
            now |= {(data, None) for row, _ in held if row is None}
        if outcome in (None, "merged"):
            now |= {(data, None) for row, later in held if row is not None and later is None}
            now |= {(row, data) for row, later in held if later is not None}
        if outcome in (None, "follow-up"):
            now |= {(row, data) for row, later in held if row is not None and later is None}
        self.keys[key] = now | held if outcome is None else now

    def claimed(self, key: bytes, data: bytes) -> None:
        self.keys[key] = {held for held in self.keys[key] if held[0] == data}
        assert self.keys[key], f"{key!r} cannot hold {data!r}"

    def done(self, key: bytes, known: bool) -> None:
        self.keys[key] = {(later, None) for _, later in self.keys[key]} | (set() if known else self.keys[key])

    def returned(self, key: bytes, known: bool) -> None:
        self.keys[key] = {(later or row, None) for row, later in self.keys[key]} | (set() if known else self.keys[key])

    async def check(self, queue: Queue) -> None:
        rows: dict[bytes, list[bytes | None]] = defaultdict(lambda: [None, None])
        for row in await queue.rows(limit=1000):
            rows[row.key][row.follow_up] = row.data
        for key, held in self.keys.items():
            assert tuple(rows[key]) in held, f"{key!r} holds {rows[key]}, not one of {held}"
        for id, data in self.results.items():
            found = await queue.result(id)
            assert found is not None, f"row {id} is not done"
            assert found.data == data
        for id, several in self.tried.items():
            with suppress(NotFound, Conflict):
                found = await queue.result(id)
                assert found is None or found.data in several


async def work(
    queue: Queue, region: Region, expected: Expected, random: Random, steps: int = STEPS, *, clock: ManualClock | None = None
) -> None:
    """`clock`: time passes between some steps, so that leases end, rows expire and periods are over."""
    claims: list[tuple[str, bytes, int]] = []
    lapsed: set[bytes] = set()  # keys of leases that may have ended: that is written by and by, also behind later calls
    kinds = ["put", "put", "claim", "claim", "end", "end", "clean", *(["short", "time", "time"] if clock is not None else [])]
    for step in range(steps):
        kind, key, data = random.choice(kinds), b"%d" % random.randrange(4), b"%d" % step
        for held in lapsed:
            expected.returned(held, False)
        try:
            if kind == "time" and clock is not None:
                for _, held, _ in claims:
                    lapsed.add(held)
                    expected.returned(held, False)
                await clock.run(random.choice([1, 61, 3600]))
            elif kind == "short" and clock is not None:
                await queue.put([NewRow(key=SHORT + key, expiration_date=clock.now_ms() + 500)])
            elif kind == "put":
                await _put(queue, expected, key, data)
            elif kind == "claim":
                for claimed in (await queue.claim(random.randrange(1, 3))).claims:
                    if claimed.row.key.startswith(SHORT):
                        continue
                    expected.claimed(claimed.row.key, claimed.row.data)
                    lapsed.discard(claimed.row.key)
                    claims.append((claimed.token, claimed.row.key, claimed.row.id))
            elif kind == "end" and claims:
                how = random.choice(["done", "fail", "release"])
                await _end(queue, expected, *claims.pop(random.randrange(len(claims))), how=how, lost=clock is not None)
            elif kind == "clean":
                await queue.mark()
                await region.clean()
        except HeadwaterError:
            continue


async def _put(queue: Queue, expected: Expected, key: bytes, data: bytes) -> None:
    try:
        [put] = await queue.put([NewRow(key=key, data=data)])
    except HeadwaterError:
        expected.put(key, data, None)
        raise
    expected.put(key, data, put.outcome)


async def _end(queue: Queue, expected: Expected, token: str, key: bytes, id: int, *, how: str, lost: bool) -> None:
    note, result = expected.done if how == "done" else expected.returned, RowResult(token.encode() * 20)
    if how == "done":
        expected.tried[id].add(result.data)
    try:
        call = {
            "done": lambda tokens: queue.done(tokens, {token: result}),
            "release": queue.release,
            "fail": lambda tokens: queue.fail([FailedClaim(tokens[0])]),
        }[how]
        stale = await call([token])
    except HeadwaterError:
        note(key, False)
        raise
    assert lost or stale == []
    if stale:
        return
    note(key, True)
    if how == "done":
        expected.results[id] = result.data


async def lived(
    data: Path, files: FailingFiles, expected: Expected, seed: int, large: int, *, steps: int = STEPS, timed: bool = False
) -> None:
    """Open the queue, work, and close: whatever fails. `timed`: time passes between some steps."""
    clock = ManualClock()
    try:
        log = EmbeddedLog(data, files=files)
    except HeadwaterError:
        return
    with log, LocalOwnership(log, data / "owners", files=files) as owners:
        try:
            region = await open_region(log, owners, TOPICS)
        except HeadwaterError:
            return
        try:
            queue = await open_queue("q", region, 1, settings=SETTINGS, clock=clock, timers=Timers(clock), large=large)
            await work(queue, region, expected, Random(seed), steps, clock=clock if timed else None)
            await queue.aclose()
        except HeadwaterError:
            pass
        try:
            await region.close_gracefully()
        except HeadwaterError:
            await region.close()


async def checked(data: Path, expected: Expected, large: int) -> None:
    """The queue as a new process finds it, and what it does afterwards."""
    clock = ManualClock()
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        region = await open_region(log, owners, TOPICS)
        queue = await open_queue("q", region, 1, settings=SETTINGS, clock=clock, timers=Timers(clock), large=large)
        await expected.check(queue)
        await work(queue, region, expected, Random(0), 10)
        await expected.check(queue)
        await queue.aclose()
        await region.close()


def made(data: Path, disposal: Disposal = "delete") -> Path:
    with EmbeddedLog(data) as log:
        create_region(log, TOPICS, TopicSettings(segment=4096 if disposal == "delete" else 1024, disposal=disposal))
    return data


def calls(data: Path, seed: int, large: int, disposal: Disposal = "delete") -> int:
    """How many calls a life without failures makes."""
    files = FailingFiles()
    asyncio.run(lived(made(data, disposal), files, Expected(), seed, large))
    return files.calls


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("seed", [1, 2])
@LARGE_ROWS
def test_one_failing_call_loses_nothing(tmp_path: Path, seed: int, number: int, large: int) -> None:
    total = calls(tmp_path / "whole", seed, large)
    assert total > 100
    for at in range(1 + seed % EVERY, total, EVERY):
        data, expected = made(tmp_path / f"{at}"), Expected()
        asyncio.run(lived(data, FailingFiles(at, number=number), expected, seed, large))
        asyncio.run(checked(data, expected, large))


@pytest.mark.parametrize("disposal", ["truncate", "secure-reset", "secure-delete"])
def test_one_failing_call_of_a_disposal_loses_nothing(tmp_path: Path, disposal: Disposal) -> None:
    total = calls(tmp_path / "whole", 4, LARGE, disposal)
    folder = tmp_path / "whole" / "log" / TOPICS.data / "0"
    assert disposal == "secure-delete" or list(folder.glob("*.spare")), "files were disposed of"
    for at in range(1 + len(disposal) % EVERY, total, EVERY):
        data, expected = made(tmp_path / f"{at}", disposal), Expected()
        asyncio.run(lived(data, FailingFiles(at, number=errno.EIO), expected, 4, LARGE))
        asyncio.run(checked(data, expected, LARGE))


@LARGE_ROWS
def test_a_disk_that_fails_for_good_loses_nothing(tmp_path: Path, large: int) -> None:
    total = calls(tmp_path / "whole", 3, large)
    for at in range(1, total, 4 * EVERY):
        data, expected = made(tmp_path / f"{at}"), Expected()
        asyncio.run(lived(data, FailingFiles(at, forever=True), expected, 3, large))
        asyncio.run(checked(data, expected, large))


@LARGE_ROWS
def test_a_process_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path, large: int) -> None:
    """The child tells each acknowledged put, claim, extend, done and fail through a pipe."""
    files = DyingFiles()
    asyncio.run(told(made(tmp_path / "whole"), files, os.open(os.devnull, os.O_WRONLY), large))
    for at in range(1, files.calls, 5 * EVERY):
        data = made(tmp_path / f"{at}")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            asyncio.run(told(data, DyingFiles(at), write, large))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            acknowledged = [line.split() for line in pipe.read().splitlines()]
        os.waitpid(child, 0)
        asyncio.run(compared(data, acknowledged, large))


async def told(data: Path, files: DyingFiles, write: int, large: int) -> None:
    clock = ManualClock()
    with EmbeddedLog(data, files=files) as log, LocalOwnership(log, data / "owners", files=files) as owners:
        region = await open_region(log, owners, TOPICS)
        queue = await open_queue("q", region, 1, settings=SETTINGS, clock=clock, timers=Timers(clock), large=large)
        for step in range(12):
            key = b"%d" % step
            await queue.put([NewRow(key=key, unique_for=60_000)])
            os.write(write, b"put %s\n" % key)
            [claimed] = (await queue.claim()).claims
            os.write(write, b"claim %s %s\n" % (key, claimed.token.encode()))
            if step % 3 == 0:
                assert await queue.extend([claimed.token], 7_200_000) == []
                os.write(write, b"extend %s\n" % key)
            elif step % 3 == 1:
                assert await queue.done([claimed.token], {claimed.token: RowResult(key)}) == []
                os.write(write, b"done %s %d\n" % (key, claimed.row.id))
            else:
                assert await queue.fail([FailedClaim(claimed.token, "no", 1_000_000)]) == []
                os.write(write, b"fail %s\n" % key)
            if step % 5 == 4:
                await queue.mark()
                await region.clean()
        await queue.aclose()
        await region.close()


async def compared(data: Path, acknowledged: list[list[bytes]], large: int) -> None:
    clock = ManualClock()
    with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
        region = await open_region(log, owners, TOPICS)
        queue = await open_queue("q", region, 1, settings=SETTINGS, clock=clock, timers=Timers(clock), large=large)
        rows = {row.key: row for row in await queue.rows(limit=100)}
        last = acknowledged[-1][1] if acknowledged else b""
        for kind, key, *more in acknowledged:
            if kind == b"done":
                assert key not in rows
                found = await queue.result(int(more[0]))
                assert found is not None
                assert found.data == key
                assert (await queue.put([NewRow(key=key, unique_for=60_000)]))[0].outcome == "ignored"
            elif kind == b"extend":
                assert rows[key].lease_until == rows[key].start_processing_date + 7_200_000
            elif kind == b"fail":
                assert (rows[key].status, rows[key].failures, rows[key].error) == ("W", 1, "no")
            elif key != last:  # of the last key, one call more may have arrived
                continue
            elif kind == b"claim" and key in rows and rows[key].status == "P":
                assert await queue.extend([more[0].decode()]) == []
        await queue.aclose()
        await region.close()
