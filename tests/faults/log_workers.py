"""Processes that use one log at once and are killed: each runs until its death, and writes down what it was told.

A line of a worker's notes is whole or absent. Writers note what was acknowledged, whoever deletes notes its intent first, and any of them
notes what must not happen. Values say who wrote them and how they may be removed, so that a reader knows what it must find.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.core.clock import SystemClock
from headwater.core.errors import Conflict, Fenced, HeadwaterError, OffsetGone, OutcomeUnknown, Unavailable, UnknownTopic
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

KEPT = {  # topics that stay; `claimed` is written under claims that the writers take from each other
    "plain": TopicSettings(segment=3000),
    "timed": TopicSettings(segment=200_000, period=20, disposal="secure-truncate"),
    "claimed": TopicSettings(segment=3000, period=50, disposal="reset"),
}
BRIEF = "brief"  # a topic that is deleted and made again all the time
UNKEYED, UNIQUE, SHARED = "n", "u", "s"  # a record without a key, with a key of its own, with one that others write, too
EXPECTED: dict[str, tuple[type[HeadwaterError], ...]] = {  # of an append: nothing was appended, and the writer goes on
    "plain": (),
    "timed": (),
    "claimed": (Fenced,),
    BRIEF: (UnknownTopic, Unavailable),
}


class SteppingClock(SystemClock):
    """The machine's time with an error that changes now and then, backwards, too."""

    def __init__(self, random: Random) -> None:
        self._random, self._error = random, 0

    def now_ms(self) -> int:
        if self._random.random() < 0.02:
            self._error = self._random.randint(-200, 200)
        return super().now_ms() + self._error


class Notes:
    """A file to which one process appends whole lines."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *lines: str) -> None:
        os.write(self._fd, "".join(f"{line}\n" for line in lines).encode())

    def broken(self, what: str) -> None:
        self.write("! " + what.replace("\n", "\\n"))


def work(role: str, data: str, notes: str, who: str, seed: int) -> None:
    """The life of a worker: until somebody kills it, or until something happens that must not."""
    written = Notes(Path(notes))
    try:
        ROLES[role](Path(data), written, who, Random(seed))
    except BaseException:
        written.broken(f"{who} ended: {traceback.format_exc()}")


def orphaned() -> bool:
    """The test that started this process is gone, and with it whoever would kill it."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


# -- writing ------------------------------------------------------------------------------------------------


@dataclass
class Numbers:
    """The next numbers of one writer in one topic. After an unknown outcome a new name is taken: the last numbers may be there or not."""

    who: str
    unkeyed: int = 0
    others: int = 0
    lives: int = 0

    def records(self, random: Random) -> list[Record]:
        made = []
        for _ in range(random.choice([1, 1, 2, 5])):
            kind = random.choice([UNKEYED, UNIQUE, SHARED])
            number = self.unkeyed if kind == UNKEYED else self.others
            key = {UNKEYED: None, UNIQUE: f"{self.name}/{number}", SHARED: f"shared-{random.randrange(5)}"}[kind]
            self.unkeyed, self.others = self.unkeyed + (kind == UNKEYED), self.others + (kind != UNKEYED)
            value = f"{self.name}:{number}:{kind}:{key or ''}:" + "x" * random.randint(0, 60)
            made.append(Record(key.encode() if key else None, value.encode()))
        return made

    @property
    def name(self) -> str:
        return f"{self.who}+{self.lives}"

    def again(self) -> None:
        self.unkeyed, self.others, self.lives = 0, 0, self.lives + 1


def write(data: Path, notes: Notes, who: str, random: Random) -> None:
    """Append to every topic in turn, take claims over, and open the log anew now and then."""
    numbers = {topic: Numbers(who) for topic in (*KEPT, BRIEF)}
    while not orphaned():
        with EmbeddedLog(data, clock=SteppingClock(random)) as log:
            writer = log.claim("claimed", 0)
            for _ in range(random.randint(1, 300)):
                topic = random.choice(list(numbers))
                if topic == "claimed" and random.random() < 0.05:
                    writer = log.claim("claimed", 0)
                _append(log, writer, topic, numbers[topic], notes, random)


def _append(log: EmbeddedLog, writer: Writer, topic: str, numbers: Numbers, notes: Notes, random: Random) -> None:
    before = (numbers.unkeyed, numbers.others)
    records, begun = numbers.records(random), time.monotonic()
    try:
        inline = None if topic == "claimed" else log.append_inline(topic, 0, records)  # None on a disk, offsets in memory
        offsets = inline or (writer.append(records) if topic == "claimed" else log.append(topic, 0, records))
    except OutcomeUnknown:
        if topic != "claimed":
            raise
        numbers.again()
    except EXPECTED[topic]:
        numbers.unkeyed, numbers.others = before
    else:
        ended = time.monotonic()
        notes.write(
            *(
                f"A {begun:.6f} {ended:.6f} {topic} {offset} {(record.value or b'').decode()}"
                for offset, record in zip(offsets, records, strict=True)
            )
        )


# -- housekeeping -------------------------------------------------------------------------------------------


def compact(data: Path, notes: Notes, who: str, random: Random) -> None:
    with EmbeddedLog(data) as log:
        while not orphaned():
            topic = random.choice(list(KEPT))
            try:
                bounds = log.bounds(topic, 0)
                owner = log.writer(topic, 0, log.epoch(topic, 0))
                owner.compact(random.choice([None, random.randint(0, bounds.end)]))
                if random.random() < 0.3:
                    owner.roll()
            except Conflict:
                continue  # a killed one's lock is let go of; a living one is compacting; or another has claimed meanwhile
            time.sleep(random.random() * 0.02)


def delete(data: Path, notes: Notes, who: str, random: Random) -> None:
    """Delete a prefix of a topic, having noted how far: never the last record."""
    with EmbeddedLog(data) as log:
        while not orphaned():
            topic = random.choice(list(KEPT))
            bounds = log.bounds(topic, 0)
            if bounds.end - bounds.start > 400:
                offset = random.randint(bounds.start, bounds.end - 200)
                notes.write(f"D {topic} {offset}")
                with suppress(Fenced):  # claimed by another meanwhile: deleted another time
                    log.writer(topic, 0, log.epoch(topic, 0)).delete_before(offset)
            time.sleep(random.random() * 0.02)


def recreate(data: Path, notes: Notes, who: str, random: Random) -> None:
    """Delete a topic and make it again. Between the two notes it may be gone."""
    with EmbeddedLog(data) as log:
        while not orphaned():
            notes.write(f"B {time.monotonic():.6f}")
            with suppress(UnknownTopic):  # killed after deleting it, the last time
                log.delete_topic(BRIEF)
            log.create_topic(BRIEF)
            notes.write(f"C {time.monotonic():.6f}")
            time.sleep(random.random() * 0.08)


# -- reading ------------------------------------------------------------------------------------------------


@dataclass
class Chain:
    """What one pass over a topic has seen. Offsets only grow, and of each writer's records without a key none is left out."""

    topic: str
    last: int = -1
    numbers: dict[str, int] = field(default_factory=dict)

    def see(self, offset: int, value: bytes) -> str:
        """Take the next record; return what is wrong with it, or nothing."""
        if offset <= self.last:
            return f"offset {offset} came after {self.last}"
        self.last = offset
        name, number, kind, _ = value.decode().split(":", 3)
        if kind != UNKEYED:
            return ""
        expected = self.numbers.get(name)
        self.numbers[name] = int(number) + 1
        return "" if expected is None or int(number) == expected else f"offset {offset} is {name}:{number}, but {expected} comes next"


def read(data: Path, notes: Notes, who: str, random: Random) -> None:
    """Scan, read and follow the topics: everything durable must be there, in order, once."""
    follows = {topic: Follow(topic) for topic in KEPT}
    while not orphaned():
        with EmbeddedLog(data, read_only=True) as log:
            for _ in range(random.randint(1, 200)):
                topic = random.choice(list(KEPT))
                try:
                    wrong = random.choice([_scan, _read, _read_at, follows[topic].step])(log, topic, random)
                except OffsetGone:
                    continue  # deleted meanwhile
                if wrong:
                    notes.broken(f"{who} {topic}: {wrong}")


def _scan(log: EmbeddedLog, topic: str, random: Random) -> str:
    bounds = log.bounds(topic, 0)
    start = random.randint(bounds.start, bounds.end)
    if random.random() < 0.5:
        start = max(bounds.start, bounds.end - random.randint(0, 300))
    chain = Chain(topic)
    for rows in log.scan(topic, 0, start, bounds.end, batch=random.choice([7, 65_536])):
        for offset, value in zip(rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True):
            if wrong := chain.see(offset, value):
                return f"scan from {start} to {bounds.end}: {wrong}"
    return _left_out(log, topic, f"scan from {start} to {bounds.end}", max(start, chain.last + 1), bounds.end)


def _read(log: EmbeddedLog, topic: str, random: Random) -> str:
    bounds = log.bounds(topic, 0)
    if bounds.start == bounds.end:
        return ""
    start = max(bounds.start, bounds.end - random.choice([1, 1, 5, 500]))
    limit = random.choice([1, 3, 1000])
    records = log.read(topic, 0, start, limit=limit)
    if not records:
        return f"read at {start} gave nothing, the end was {bounds.end}"
    chain = Chain(topic)
    for record in records:
        if wrong := chain.see(record.offset or 0, record.value or b""):
            return f"read at {start}: {wrong}"
    if len(records) == limit:
        return ""
    return _left_out(log, topic, f"read of {limit} at {start}", chain.last + 1, bounds.end)


def _read_at(log: EmbeddedLog, topic: str, random: Random) -> str:
    """Each record asked for is the one at its offset, and one that is not given is not there afterwards either."""
    end = log.bounds(topic, 0).end
    offsets = [random.randrange(end) for _ in range(random.choice([1, 20])) if end]
    found = log.read_at(topic, 0, offsets)
    again = log.read_at(topic, 0, offsets)
    for offset, record, later in zip(offsets, found, again, strict=True):
        if (record and record.offset != offset) or (later and later != record):
            return f"read at offset {offset} gave {record}, then {later}"
        if record and (record.value or b"").count(b":") < 4:
            return f"read at offset {offset} gave {record.value!r}"
    return _missed(log, topic, [offset for offset, record in zip(offsets, again, strict=True) if record is None])


def _missed(log: EmbeddedLog, topic: str, offsets: list[int]) -> str:
    """Those of the offsets that are there all the same."""
    start = log.bounds(topic, 0).start
    there = [offset for offset in offsets if offset >= start and [r for r in log.read(topic, 0, offset, limit=1) if r.offset == offset]]
    return f"read_at left out {there}" if there else ""


def _left_out(log: EmbeddedLog, topic: str, what: str, low: int, end: int) -> str:
    """What ended below `end` has left something out if it is there now. What is not may have been compacted meanwhile."""
    missed = [record.offset for record in log.read(topic, 0, low, limit=end - low) if (record.offset or 0) < end] if low < end else []
    return f"{what} ended before {low}, the end was {end}, and {missed} are there" if missed else ""


class Follow:
    """A tail that is kept for long: it goes on where it was, through rolls, deletions and the opening of a new log."""

    def __init__(self, topic: str) -> None:
        self.chain = Chain(topic)

    def step(self, log: EmbeddedLog, topic: str, random: Random) -> str:
        start, count = self.chain.last + 1, 0
        try:
            for records in log.tail(topic, 0, start, stopped=lambda: False):
                for record in records:
                    if wrong := self.chain.see(record.offset or 0, record.value or b""):
                        return f"tail from {start}: {wrong}"
                count += 1
                if not records or count >= 5:
                    return ""
        except OffsetGone:
            self.chain = Chain(topic, log.bounds(topic, 0).start - 1)
        return ""


ROLES: dict[str, Callable[[Path, Notes, str, Random], None]] = {
    "write": write,
    "compact": compact,
    "delete": delete,
    "recreate": recreate,
    "read": read,
}
