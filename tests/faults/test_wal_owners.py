"""Two processes and one region: an owner that is stopped, that forks, that is killed in the middle of a snapshot or a move."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import HeadwaterError, NotOwner, Timeout
from headwater.core.files import FileLock, Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.wal.recovery import full_scan, recover
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("wal", 7)


class Stopping:
    """A Writer at whose next call of one kind the whole process stops."""

    def __init__(self, writer: Any, name: str) -> None:
        self._writer, self._name = writer, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            self._name = ""
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread goes no further
        return getattr(self._writer, name)


async def own(data: Path, lines: BinaryIO, tell: Callable[[str], None]) -> None:
    """Write 20 payloads into each of two tables, mark all of the first, and do what each line says: a call, or `stop in TOPIC CALL`."""
    log = EmbeddedLog(data, clock=ManualClock(wakes=False))  # no thread of its own holds a lock when it is stopped
    region = await open_region(log, LocalOwnership(log, data / "owners", address="http://other:1"), TOPICS)
    for number in range(20):
        await region.write(1, [b"a%d" % number])
        await region.write(2, [b"b%d" % number])
    await region.mark_delete_up_to(1, 20)
    await region.mark_delete_up_to(2, 15)
    tell("ready")
    for line in lines:
        try:
            words = line.decode().split()
            if words[0] == "stop":
                owner: Any = region._owned if words[2] == "data" else region._snapshots
                name = "writer" if words[2] == "data" else "_writer"
                setattr(owner, name, Stopping(getattr(owner, name), words[3]))
            else:
                tell(f"done {await eval(line)}")
        except HeadwaterError as error:
            tell(type(error).__name__)


class Owner:
    """The other process."""

    def __init__(self, data: Path) -> None:
        lines, self._say = os.pipe()
        self._hear, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._say)
                asyncio.run(own(data, os.fdopen(lines, "rb"), lambda line: print(line, file=os.fdopen(os.dup(told), "w"), flush=True)))
            finally:
                os._exit(1)
        os.close(lines)
        os.close(told)
        self._heard = os.fdopen(self._hear, "r")
        assert self.hear() == "ready"

    def say(self, line: str) -> None:
        os.write(self._say, line.encode() + b"\n")

    def hear(self) -> str:
        return self._heard.readline().strip()

    def ask(self, line: str) -> str:
        self.say(line)
        return self.hear()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped()

    def stopped(self) -> None:
        """Wait until it has stopped."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it ended with {status}"

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Kill it. Killing it twice is no error."""
        if self._heard.closed:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._say)
        self._heard.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with EmbeddedLog(tmp_path / "data") as log:
        create_region(log, TOPICS, TopicSettings(segment=600))
    return tmp_path / "data"


@pytest.fixture
def owner(data: Path) -> Iterator[Owner]:
    made = Owner(data)
    yield made
    made.end()


def here(data: Path, work: Callable[[EmbeddedLog, Region], Awaitable[None]], *, take_over: bool = False) -> None:
    """Open the region in this process, and work."""

    async def run() -> None:
        with EmbeddedLog(data) as log, LocalOwnership(log, data / "owners") as owners:
            region = await open_region(log, owners, TOPICS, take_over=take_over)
            await work(log, region)
            await region.close()

    asyncio.run(run())


async def entries(region: Region, table: int) -> list[tuple[int, bytes]]:
    return [(entry.sequence, entry.payload) async for entry in region.read(table)]


LIVE = [(number + 1, b"b%d" % number) for number in range(15, 20)]


def test_while_the_owner_lives_or_stands_still_others_are_told_where_it_is(data: Path, owner: Owner) -> None:

    async def nothing(log: EmbeddedLog, region: Region) -> None:
        raise AssertionError("it was opened")

    with pytest.raises(NotOwner, match="http://other:1"):
        here(data, nothing)
    assert owner.ask("region.write(2, [b'x'])") == "done 21"
    owner.stop()
    with pytest.raises(NotOwner, match="http://other:1"):
        here(data, nothing)
    owner.end()

    async def at_once(log: EmbeddedLog, region: Region) -> None:
        assert await region.write(2, [b"y"]) == 22

    here(data, at_once)


@pytest.mark.parametrize("call", ["write(2, [b'late'])", "snapshot()", "clean()", "mark_delete_up_to(2, 20)", "drop_table(2)", "move(2)"])
def test_whatever_a_stopped_owner_does_after_a_take_over_is_fenced_and_changes_nothing(data: Path, owner: Owner, call: str) -> None:
    owner.stop()

    async def taken(log: EmbeddedLog, region: Region) -> None:
        assert await region.write(2, [b"here"]) == 21
        owner.go_on()
        assert owner.ask(f"region.{call}") == "Fenced"
        assert owner.ask(f"region.{call}") == "Fenced"
        assert await region.write(2, [b"here"]) == 22
        assert await entries(region, 2) == [*LIVE, (21, b"here"), (22, b"here")]
        owner.end()

    here(data, taken, take_over=True)


@pytest.mark.parametrize(
    "where",
    ["data delete_before", "data roll", "meta append", "meta delete_before"],
)
@pytest.mark.parametrize("rounds", [0, 3])
def test_an_owner_that_is_stopped_inside_a_clean_truncates_nothing_later(data: Path, owner: Owner, where: str, rounds: int) -> None:
    """It has decided what to remove, and somebody else owns the region when it goes on. `rounds`: cleans of the new owner meanwhile."""
    if where == "data roll":
        assert owner.ask("region.mark_delete_up_to(2, 20)").startswith("done")
    assert owner.ask("region.snapshot()").startswith("done")
    assert owner.ask("region.snapshot()").startswith("done")
    owner.say(f"stop in {where}")
    owner.say("region.clean()")
    owner.stopped()
    live = [] if where == "data roll" else LIVE

    async def taken(log: EmbeddedLog, region: Region) -> None:
        assert await region.write(1, [b"new"]) == 21
        assert await region.write(2, [b"new"]) == 21
        for _ in range(rounds):
            await region.clean()
        start, meta = log.bounds(TOPICS.data, 0).start, log.bounds(TOPICS.meta, 0)
        owner.go_on()
        assert owner.hear() == "Fenced"
        assert log.bounds(TOPICS.data, 0).start == start
        assert log.bounds(TOPICS.meta, 0) == meta
        assert await entries(region, 1) == [(21, b"new")]
        assert await entries(region, 2) == [*live, (21, b"new")]
        owner.end()

    here(data, taken, take_over=True)

    async def found(log: EmbeddedLog, region: Region) -> None:
        assert await entries(region, 2) == [*live, (21, b"new")]
        assert not region.recovered.problems

    here(data, found)


@pytest.mark.parametrize("where", ["data append", "meta append", "data delete_before"])
@pytest.mark.parametrize("call", ["move(2)", "clean()", "drop_table(1)", "write(2, [b'last'])"])
def test_an_owner_that_dies_in_the_middle_leaves_a_whole_region(data: Path, owner: Owner, where: str, call: str) -> None:
    owner.say(f"stop in {where}")
    owner.say(f"region.{call}")
    if (call, where) in STOPS:
        owner.stopped()
    else:
        assert owner.hear().startswith("done")
    owner.end()

    async def found(log: EmbeddedLog, region: Region) -> None:
        if log.bounds(TOPICS.data, 0).start == 0:
            assert recover(log, TOPICS).meta == full_scan(log, TOPICS).meta
        there = await entries(region, 2)
        assert there[:5] == LIVE
        assert await region.write(2, [b"next"]) == there[-1][0] + 1
        assert await region.move(2) == len(there) + 1
        assert (await region.clean()).start > 40
        assert [sequence for sequence, _ in await entries(region, 2)] == list(range(16, there[-1][0] + 2))

    here(data, found)


STOPS = {
    ("move(2)", "data append"),
    ("clean()", "meta append"),
    ("clean()", "data delete_before"),
    ("drop_table(1)", "data append"),
    ("write(2, [b'last'])", "data append"),
}


def test_a_child_of_the_owner_owns_nothing_and_keeps_nothing(data: Path) -> None:
    """It cannot write as the owner, and when the owner dies before it, the region is free."""
    told, tell = os.pipe()
    owner = os.fork()
    if owner == 0:

        async def own() -> None:
            log = EmbeddedLog(data)
            owned = LocalOwnership(log, data / "owners")
            region = await open_region(log, owned, TOPICS)
            await region.write(1, [b"a"])
            child = os.fork()
            if child == 0:
                os.write(tell, b"lost " if region._owned.lost else b"kept ")
                signal.pause()
            os.write(tell, b"%d " % child)
            await region.write(1, [b"b"])
            os.write(tell, b"wrote ")
            signal.pause()

        try:
            asyncio.run(own())
        finally:
            os._exit(1)
    os.close(tell)
    words: list[bytes] = []
    while len(words) < 3:
        words += os.read(told, 100).split()
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    try:
        assert {b"lost", b"wrote"} < set(words)

        async def found(log: EmbeddedLog, region: Region) -> None:
            assert await entries(region, 1) == [(1, b"a"), (2, b"b")]
            assert await region.write(1, [b"c"]) == 3

        here(data, found)
    finally:
        os.kill(next(int(word) for word in words if word.isdigit()), signal.SIGKILL)
        os.close(told)


def test_a_take_over_from_an_owner_that_stands_still_with_the_lock_says_so_and_succeeds_later(data: Path) -> None:
    """Nobody can take the lock of a process that is stopped in the middle of an append."""
    clock = ManualClock()

    async def take() -> None:
        with EmbeddedLog(data, clock=clock) as log, LocalOwnership(log, data / "owners") as owners:
            stopped = FileLock(Files(), data / "log" / TOPICS.data / "0" / "lock")
            stopped.exclusive()
            taking = asyncio.create_task(open_region(log, owners, TOPICS, take_over=True))
            while not taking.done():
                clock.advance(1)
                await asyncio.sleep(0)
            with pytest.raises(Timeout, match="wal_data_7/0/lock"):
                await taking
            stopped.close()
            region = await open_region(log, owners, TOPICS, take_over=True)
            assert await region.write(1, [b"x"]) == 1
            await region.close()

    asyncio.run(take())
