"""Rot: one file of a log is flipped, cut, extended, zeroed, swapped, deleted or taken from an older copy, then the log is used.

Whatever is done next, a record that was acknowledged is given back as it was, or an error is raised, or `check` or `repair` names what is
lost. A loss that nothing tells is the failure, and so is an error that is not ours.
"""

from __future__ import annotations

import shutil
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.repair import repair
from headwater.log.embedded.transporter import import_transporter
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import crash

BOOT, OTHER = b"b" * 16, b"o" * 16
TOPICS = ["dense", "compacted", "imported", "claimed"]
Contents = dict[str, dict[int, tuple[bytes | None, bytes | None]]]


@dataclass(frozen=True)
class Ground:
    """A log to be spoiled: closed by its writer or left by a killed one, with a copy of it as it was a while before."""

    data: Path
    older: Path
    settled: bool
    contents: Contents
    active: dict[str, int]  # where each topic's active segment begins


def prepare(folder: Path, *, settled: bool) -> Ground:
    """A topic of each kind of segment, with closed ones and an active one."""
    source = folder / "transporter"
    source.mkdir(parents=True)
    entries = [struct.pack(">QIQBI", i, 15, 1_491_252_302, 0, 2) + b"k%d" % i + struct.pack(">I", 5) + b"old-%d" % i for i in range(9)]
    (source / f"{0:020d}.log").write_bytes(b"".join(entries))
    clock, random, data, older = ManualClock(wakes=False), Random(1), folder / "data", folder / "older"
    log = EmbeddedLog(data, clock=clock, boot=BOOT)
    for topic in TOPICS:
        if topic == "imported":
            import_transporter(log, source, topic)
        else:
            log.create_topic(topic, settings=TopicSettings(segment=400))
    for turn in range(2):
        writer = log.claim("claimed", 0)
        for number in range(14):
            for topic in TOPICS:
                keys = [None, b"own-%d-%d" % (turn, number), b"shared-%d" % random.randrange(3)]
                value = b"%s-%d-%d-" % (topic.encode(), turn, number)
                records = [
                    Record(random.choice(keys), value + b"%d" % i + b"x" * random.randint(0, 50)) for i in range(random.randint(1, 3))
                ]
                (writer.append if topic == "claimed" else lambda some, topic=topic: log.append(topic, 0, some))(records)
        log.compact("compacted", 0)
        if not turn:
            shutil.copytree(data, older)
            clock.advance(2)
    contents: Contents = {}
    for topic in TOPICS:
        contents[topic] = {one.offset or 0: (one.key, one.value) for one in log.read(topic, 0, log.bounds(topic, 0).start)}
    active = {topic: log.reader(topic, 0).extents()[-1][0].base for topic in TOPICS}
    log.close() if settled else crash(log)
    return Ground(data, older, settled, contents, active)


# -- spoiling -----------------------------------------------------------------------------------------------


def kinds(data: Path) -> dict[str, list[Path]]:
    """The files of a log by what they are."""
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        kind = path.suffix.lstrip(".") if path.suffix in (".log", ".pos") else path.name
        found.setdefault(kind, []).append(path)
    return found


def spoil(ground: Ground, data: Path, random: Random) -> tuple[str, str]:
    """Harm one file of the copy `data`; return what was done, and to which topic ("" for the log as a whole)."""
    files = kinds(data)
    kind = random.choice([*sorted(files), "log", "log", "log", "manifest", "commit"])
    path = random.choice(files[kind])
    way = random.choice(["flip", "flip", "flip", "cut", "extend", "zero", "zeros", "delete", "swap", "older"])
    raw = bytearray(path.read_bytes())
    at = random.randrange(len(raw)) if raw else 0
    if kind == "commit":
        at %= 512  # the rest of the page is not used
    if way == "flip" and raw:
        raw[at] ^= 1 << random.randrange(8)
    elif way == "cut":
        del raw[at:]
    elif way == "extend":
        raw += random.randbytes(random.randint(1, 200)) if random.random() < 0.5 else bytes(random.randint(1, 200))
    elif way == "zero":
        raw[at : at + 16] = bytes(len(raw[at : at + 16]))
    elif way == "zeros":
        raw[at:] = bytes(len(raw) - at)
    elif way == "swap":
        others = [other for other in files[kind] if other != path and (kind != "log" or other.parent == path.parent)]
        others = [] if kind in ("manifest", "topic.json") else others  # whole and of another topic: nothing in them says whose they are
        if others:
            other = random.choice(others)
            raw = bytearray(other.read_bytes())
            other.write_bytes(path.read_bytes())
            way += f" with {other.relative_to(data)}"
    elif way == "older" and kind != "commit":  # which is the truth while the machine runs
        before = ground.older / path.relative_to(data)
        if before.exists():
            raw = bytearray(before.read_bytes())
    if way == "delete":
        path.unlink()
    else:
        path.write_bytes(raw)
    place = path.relative_to(data).parts
    return f"{way} at {at} of {'/'.join(place)}", place[1] if len(place) > 2 else ""


# -- using --------------------------------------------------------------------------------------------------


@dataclass
class Usage:
    """A log that is used after it was spoiled, and what must be found in it."""

    data: Path
    random: Random
    expected: Contents
    doubtful: bool  # a killed writer's end after another boot: rot in it looks torn
    boot: bytes
    active: dict[str, int]  # where each topic's active segment began
    topics: list[str]  # those that the rot may concern
    swapped: bool  # two segments have each other's bytes: what a repair lost, its damage tells, but not to the offset
    clock: Clock = field(default_factory=lambda: ManualClock(wakes=False))
    removable: dict[str, int] = field(default_factory=dict)  # deleted below
    compacted: set[str] = field(default_factory=set)
    lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # told by repair
    given: dict[str, int] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def use(self) -> None:
        self.given = {topic: max(contents) for topic, contents in self.expected.items()}
        log = self._open()
        try:
            for _ in range(self.random.randint(1, 5)):
                step = self.random.choice([self._read, self._check, self._append, self._append, self._compact, self._delete, self._repair])
                topic = self.random.choice(self.topics)
                if self.random.random() < 0.2:
                    log.close()
                    log = self._open()
                if step == self._repair:
                    log.close()
                self._tried(lambda step=step, topic=topic, log=log: step(log, topic), f"{step.__name__[1:]} {topic}")
                if step == self._repair:
                    log = self._open()
            self._tried(log.close, "close")
            log = self._open()
            for topic in self.topics:
                self._last_look(log, topic)
        finally:
            log.close()

    def _open(self) -> EmbeddedLog:
        try:
            return EmbeddedLog(self.data, clock=self.clock, boot=self.boot)
        except HeadwaterError as error:
            self.history.append(f"open: {type(error).__name__}")
            raise

    def _tried(self, step: Callable[[], object], what: str) -> bool:
        try:
            step()
        except HeadwaterError as error:
            self.history.append(f"{what}: {type(error).__name__} {error.message}")
            return False
        self.history.append(what)
        return True

    def _read(self, log: EmbeddedLog, topic: str) -> None:
        start = log.bounds(topic, 0).start
        self._compare(topic, start, [(one.offset or 0, one.key, one.value) for one in log.read(topic, 0, start)], "read")
        rows = [row for batch in log.scan(topic, 0, start, batch=self.random.choice([3, 1000])) for row in batch.to_pylist()]
        self._compare(topic, start, [(row["offset"], row["key"], row["value"]) for row in rows], "scan", whole=True)

    def _compare(self, topic: str, start: int, rows: list[tuple[int, bytes | None, bytes | None]], what: str, whole: bool = False) -> None:
        """Nothing is wrong or left out between the records that were given."""
        found = {offset: (key, value) for offset, key, value in rows}
        end = max(self.expected[topic], default=-1) if whole else max(found, default=-1)
        newest = {key: offset for offset, (key, _) in self.expected[topic].items()}
        for offset, stored in self.expected[topic].items():
            if offset in found:
                if found[offset] != stored:
                    self.problems.append(f"{what} {topic}: offset {offset} is {found[offset]}, was {stored}")
            elif start <= offset <= end and not self._excused(topic, offset, stored[0], newest):
                self.problems.append(f"{what} {topic} from {start} left out offset {offset} without a word")
        if strangers := sorted(set(found) - set(self.expected[topic])):
            self.problems.append(f"{what} {topic} gave offsets {strangers} that nobody wrote")

    def _excused(self, topic: str, offset: int, key: bytes | None, newest: dict[bytes | None, int]) -> bool:
        if offset < self.removable.get(topic, 0) or any(low <= offset < high for low, high in self.lost.get(topic, [])):
            return True
        if self.doubtful and offset >= self.active[topic]:
            return True
        return topic in self.compacted and key is not None and newest[key] > offset

    def _check(self, log: EmbeddedLog, topic: str) -> None:
        check(log.reader(topic, 0))

    def _append(self, log: EmbeddedLog, topic: str) -> None:
        record = Record(b"added", b"added-%d" % self.random.getrandbits(30))
        epoch = log.epoch(topic, 0)
        (offset,) = log.writer(topic, 0, epoch).append([record]) if epoch else log.append(topic, 0, [record])
        if offset <= self.given[topic] and not (self.doubtful and offset >= self.active[topic]):
            self.problems.append(f"append {topic}: offset {offset} was given again, the last was {self.given[topic]}")
        self.given[topic] = max(offset, self.given[topic])
        self.expected[topic][offset] = record.key, record.value

    def _compact(self, log: EmbeddedLog, topic: str) -> None:
        self.compacted.add(topic)
        log.writer(topic, 0, log.epoch(topic, 0)).compact()

    def _delete(self, log: EmbeddedLog, topic: str) -> None:
        bounds = log.bounds(topic, 0)
        offset = self.random.randint(bounds.start, bounds.end)
        self.removable[topic] = max(offset, self.removable.get(topic, 0))
        log.writer(topic, 0, log.epoch(topic, 0)).delete_before(offset)

    def _repair(self, log: EmbeddedLog, topic: str) -> None:
        folder = self.data / "log" / topic / "0"
        dry = self.random.random() < 0.3
        done = repair(folder, name=f"{topic} 0", files=Files(), clock=self.clock, boot=self.boot, dry_run=dry)
        if not dry:
            self.lost.setdefault(topic, []).extend([(0, self.given[topic] + 1)] if done.damage and self.swapped else done.lost)

    def _last_look(self, log: EmbeddedLog, topic: str) -> None:
        """What is left out without an error, and what `check` does not tell, is lost in silence."""
        before = len(self.problems)
        readable = self._tried(lambda: self._read(log, topic), f"read {topic}")
        told: list[object] = []
        checked = self._tried(lambda: told.extend(check(log.reader(topic, 0)).damage), f"check {topic}")
        if readable and len(self.problems) > before and (told or not checked):
            del self.problems[before:]  # short, and `check` says why
        if not readable and checked and not told:
            self.problems.append(f"{topic} cannot be read, and check says that it is whole: {self.history[-2:]}")


def round_of(ground: Ground, folder: Path, seed: int) -> list[str]:
    """Spoil a copy, use it, and return what was wrong."""
    random, data = Random(seed), folder / f"{seed}"
    shutil.copytree(ground.data, data)
    boot = random.choice([BOOT, BOOT, OTHER])
    what, topic = spoil(ground, data, random)
    active = ".log" in what and not ground.settled and boot == OTHER
    usage = Usage(
        data,
        random,
        {topic: dict(one) for topic, one in ground.contents.items()},
        active,
        boot,
        ground.active,
        [topic] if topic else TOPICS,
        "swap with" in what,
    )
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(20)
    try:
        usage.use()
    except HeadwaterError as error:
        usage.history.append(f"{type(error).__name__} {error}")
    except Exception as error:
        usage.problems.append(f"a raw {type(error).__name__}: {error} at {_where(error)}")
    finally:
        signal.alarm(0)
    end, which = "closed" if ground.settled else "killed", "same" if boot == BOOT else "other"
    return [f"seed {seed}, {end}, {which} boot, {what}; {usage.history}: {one}" for one in usage.problems[:3]]


def _hangs(number: int, frame: object) -> None:
    raise TimeoutError("it hangs")


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
