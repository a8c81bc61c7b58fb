"""The power goes at any moment of a recorded life of a log: what was acknowledged before must be found after.

`Story` says what a cut may and may not leave, from the lines that the workload wrote between its system calls.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from power_workload import BEFORE
from strace import Call, Strace, record
from traced_disk import Disk, Fate

from headwater.core.errors import HeadwaterError
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.clock import ManualClock

AFTER, LATER = b"o" * 16, b"p" * 16  # the boots that follow
WORKLOAD = Path(__file__).with_name("power_workload.py")


@dataclass
class Promise:
    """What is known about one topic before the power goes."""

    made: bool = False  # acknowledged to be there
    doubt: bool = True  # being made or deleted: it may be there or not
    generation: str = ""
    acknowledged: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    tried: set[str] | None = field(default_factory=set)  # None: anything
    start: int = 0  # deleted below, acknowledged
    going: int = 0  # deleted below, at most
    compacted: bool = False
    epoch: int = 0


class Story:
    """The workload's lines so far, as promises per topic."""

    def __init__(self) -> None:
        self.topics: dict[str, Promise] = {}
        self.errors: list[str] = []

    def hear(self, line: dict[str, Any]) -> None:
        topic, kind = line.get("topic", ""), line.get("begin") or line.get("done") or ""
        if "error" in line:
            self.errors.append(line["error"])
        elif topic:
            promise = self.topics.setdefault(topic, Promise())
            (self._begins if "begin" in line else self._done)(kind, topic, promise, line)

    def _begins(self, kind: str, topic: str, promise: Promise, line: dict[str, Any]) -> None:
        if kind in ("create", "import"):
            self.topics[topic] = Promise(tried=None if kind == "import" else set())
        elif kind == "delete_topic":
            promise.doubt = True
        elif kind == "append" and promise.tried is not None:
            promise.tried.update(value for _, value in line["records"])
        elif kind == "delete_before":
            promise.going = max(promise.going, line["offset"])
        elif kind == "compact":
            promise.compacted = True

    def _done(self, kind: str, topic: str, promise: Promise, line: dict[str, Any]) -> None:
        if kind == "create":
            promise.made, promise.doubt, promise.generation = True, False, line["generation"]
        elif kind == "delete_topic":
            self.topics[topic] = Promise(doubt=False)
        elif kind == "found":  # whoever was deleting it died before it could
            promise.doubt = False
        elif kind == "append":
            promise.made, promise.doubt = True, False
            promise.acknowledged.update(zip(line["offsets"], map(tuple, line["records"]), strict=True))
        elif kind == "delete_before":
            promise.start = max(promise.start, line["offset"])
        elif kind == "claim":
            promise.epoch = line["epoch"]


@dataclass(frozen=True)
class Recorded:
    """A life of a log: its system calls, and where it was lived."""

    calls: list[Call]
    root: Path
    notes: Path


def live(strace: Strace, folder: Path, seed: int, steps: int) -> Recorded:
    """Run the workload under strace."""
    root, notes = folder / "life", folder / "notes"
    root.mkdir(parents=True)
    _transporter_log(folder / "transporter")
    words = [sys.executable, str(WORKLOAD), str(root / "data"), str(notes), str(seed), str(steps)]
    return Recorded(record(strace, words, folder / "trace"), root, notes)


def _transporter_log(folder: Path) -> None:
    folder.mkdir()
    entries = [
        struct.pack(">QIQBI", i, 8 + 2 + 5, 1_491_252_302, 0, 2) + b"k%d" % (i % 3) + struct.pack(">I", 5) + b"old-%d" % i for i in range(7)
    ]
    (folder / f"{0:020d}.log").write_bytes(b"".join(entries))


def cuts(life: Recorded, folder: Path, random: Random, count: int) -> list[str]:
    """Cut the power at `count` moments, chosen at random, all of them when they are fewer; return what was wrong, as text."""
    moments = _moments(life)
    chosen = sorted(random.choices(range(1, moments + 1), k=count))
    disk, story, moment, problems = Disk(life.root, life.notes), Story(), 0, []
    for call in life.calls:
        changed = disk.apply(call)
        while disk.said:
            for line in disk.said.pop(0).splitlines():
                told = json.loads(line)
                if "page" in told:
                    disk.mapped(Path(told["page"]), bytes.fromhex(told["bytes"]).ljust(4096, b"\0"))
                story.hear(told)
        moment += changed
        while changed and chosen and chosen[0] == moment:
            chosen.pop(0)
            number = len(list(folder.iterdir()))
            fates: list[Fate] = ["mixed", "mixed", "mixed", "lost", "kept"]
            fate = random.choice(fates)
            after = folder / f"{number}-{moment}-{fate}"
            disk.build(after, fate, random)
            problems += [
                f"cut after change {moment} ({call.name}), {fate}, {after}: {one}" for one in examine(after / "data", story, random)
            ]
    return problems + [f"the workload failed: {one}" for one in story.errors]


def _moments(life: Recorded) -> int:
    disk = Disk(life.root, life.notes)
    return sum(disk.apply(call) for call in life.calls)


def examine(data: Path, story: Story, random: Random) -> list[str]:
    """Open what the power has left, read, write, and open it once more."""
    clock = ManualClock(wakes=False)
    try:
        with EmbeddedLog(data, read_only=True, clock=clock, boot=AFTER) as log:
            before, problems = _contents(log, story), []
            for topic, promise in story.topics.items():
                problems += [f"{topic}, read first: {one}" for one in _kept(promise, before.get(topic))]
        with EmbeddedLog(data, clock=clock, boot=AFTER) as log:
            if random.random() < 0.1:
                log.create_topic("another")
            for topic, found in before.items():
                problems += [f"{topic}: {one}" for one in _writes_on(log, topic, story.topics[topic], found)]
            written = _contents(log, story)
            if random.random() < 0.3:
                crashed = EmbeddedLog(data, clock=clock, boot=LATER, read_only=True)  # as if the power went again, with all of it on disk
                if _contents(crashed, story) != written:
                    problems.append("after another loss of power something else is read")
                crashed.close()
        with EmbeddedLog(data, clock=clock, boot=AFTER) as log:
            if _contents(log, story) != written:
                problems.append("after closing and opening something else is read")
            for topic in written:
                log.writer(topic, 0, log.epoch(topic, 0)).compact()
                problems += [f"{topic}: check after compaction says {damage}" for damage in check(log.reader(topic, 0)).damage]
    except HeadwaterError as error:
        return [f"{type(error).__name__}: {error}"]
    return problems


def _contents(log: EmbeddedLog, story: Story) -> dict[str, dict[int, Record]]:
    found = {}
    for topic in log.topics():
        if topic.name in story.topics:
            expected = story.topics[topic.name].generation
            if expected and topic.generation != expected:
                raise AssertionError(f"{topic.name} is of generation {topic.generation}, acknowledged was {expected}")
            start = log.bounds(topic.name, 0).start
            found[topic.name] = {record.offset or 0: record for record in log.read(topic.name, 0, start, limit=100_000)}
    return found


def _kept(promise: Promise, found: dict[int, Record] | None) -> list[str]:
    if found is None:
        return ["the topic is gone"] if promise.made and not promise.doubt else []
    if not promise.made and not promise.doubt:
        return ["the deleted topic is back"]
    problems = []
    newest = {record.key: offset for offset, record in found.items()}
    for offset, (key, value) in promise.acknowledged.items():
        record = found.get(offset)
        if record is not None:
            if (record.value or b"").decode() != value:
                problems.append(f"offset {offset} holds {record.value!r:.60}, acknowledged was {value:.60}")
        elif offset >= promise.going and not (promise.compacted and key and newest.get(key.encode(), -1) > offset):
            problems.append(f"offset {offset} is missing, acknowledged was {value:.60}")
    if promise.tried is not None:
        problems += [
            f"nobody wrote {record.value!r:.60}" for record in found.values() if (record.value or b"").decode() not in promise.tried
        ]
    return problems


def _writes_on(log: EmbeddedLog, topic: str, promise: Promise, before: dict[int, Record]) -> list[str]:
    problems = []
    bounds, epoch = log.bounds(topic, 0), log.epoch(topic, 0)
    if not promise.start <= bounds.start <= promise.going and promise.tried is not None:
        problems.append(f"it starts at {bounds.start}; deleted was up to {promise.start}, meant {promise.going}")
    if epoch < promise.epoch:
        problems.append(f"claim {promise.epoch} was acknowledged, the epoch is {epoch}")
    records = [Record(b"after", b"after-%d" % i) for i in range(3)]
    writer = log.writer(topic, 0, epoch) if epoch else None
    offsets = [(writer.append([record]) if writer else log.append(topic, 0, [record]))[0] for record in records]
    if promise.acknowledged and offsets[0] <= max(promise.acknowledged):
        problems.append(f"offset {offsets[0]} was given again; up to {max(promise.acknowledged)} were acknowledged")
    found = {record.offset or 0: record for record in log.read(topic, 0, log.bounds(topic, 0).start, limit=100_000)}
    added = {offset: found.pop(offset, None) for offset in offsets}
    if [record and record.value for record in added.values()] != [record.value for record in records]:
        problems.append(f"appended were {offsets}, read was {added}")
    if found != before:
        problems.append(f"a reader saw offsets {sorted(before)} before the first append, and {sorted(found)} after it")
    problems += [f"check says {damage}" for damage in check(log.reader(topic, 0)).damage]
    if promise.tried is not None:
        promise_after = {*promise.tried, *((record.value or b"").decode() for record in records)}
        promise.tried = promise_after
    return problems


__all__ = ["BEFORE", "cuts", "examine", "live"]
