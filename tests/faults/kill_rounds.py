"""Rounds of death: workers on one log are stopped and killed at random moments, and after each round the log must hold what was said."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

from log_workers import BRIEF, KEPT, SHARED, work

from headwater.core.errors import HeadwaterError, OffsetGone
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

CREW = ["write", "write", "write", "compact", "delete", "recreate", "read", "read"]
STUCK = 60.0  # seconds without a word from any living writer


@dataclass
class Ledger:
    """What the workers have noted so far: acknowledged values that must still be there, and how far deletions were meant to go."""

    folder: Path
    kept: dict[str, dict[int, str]] = field(default_factory=lambda: {topic: {} for topic in KEPT})
    given: dict[str, bytearray] = field(default_factory=lambda: {topic: bytearray() for topic in KEPT})
    deleted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEPT, 0))
    brief: list[tuple[float, float, int, str]] = field(default_factory=list)
    gone_from: float = 0.0  # when a deletion of the brief topic last began
    there_from: float = 0.0  # when it was last made
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    _read: dict[Path, int] = field(default_factory=dict)

    def update(self) -> None:
        """Take in every whole line written since the last time."""
        for path in sorted(self.folder.iterdir()):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                raw = file.read()
            whole = raw[: raw.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.decode().splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        kind, rest = line.split(" ", 1)
        if kind == "A":
            begun, ended, topic, offset, value = rest.split(" ", 4)
            self._acknowledge(float(begun), float(ended), topic, int(offset), value)
        elif kind == "D":
            topic, offset = rest.split(" ")
            self.deleted[topic] = max(self.deleted[topic], int(offset))
        elif kind == "B":
            self.gone_from = max(self.gone_from, float(rest))
        elif kind == "C":
            self.there_from = max(self.there_from, float(rest))
        else:
            self.problems.append(rest.replace("\\n", "\n"))

    def _acknowledge(self, begun: float, ended: float, topic: str, offset: int, value: str) -> None:
        self.acknowledged += 1
        if topic == BRIEF:
            self.brief.append((begun, ended, offset, value))
            return
        given = self.given[topic]
        given.extend(bytes(max(0, offset + 1 - len(given))))
        if given[offset]:
            self.problems.append(f"{topic}: offset {offset} was acknowledged twice, now as {value}")
        given[offset] = 1
        self.kept[topic][offset] = value


class Rounds:
    """One log, its workers, and what they say. `problems` is empty as long as every promise was kept."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.data, self.notes = folder, folder / "data", folder / "notes"
        self.notes.mkdir(parents=True)
        self._random, self._seed = Random(seed), seed
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["log_workers", "headwater.log.embedded.compaction"])
        self._crew: list[ForkServerProcess | None] = [None] * len(CREW)
        self._births = 0
        self.ledger = Ledger(self.notes)
        with EmbeddedLog(self.data) as log:
            for topic, settings in KEPT.items():
                log.create_topic(topic, settings=settings)
            log.create_topic(BRIEF)

    def run(self, rounds: int) -> list[str]:
        """Play the rounds; the problems found, as text. Ends with the round that found the first."""
        try:
            for number in range(rounds):
                if found := self._round(number):
                    return [f"seed {self._seed}, round {number}: {one}" for one in found]
        finally:
            self._kill(range(len(CREW)))
        return []

    def _round(self, number: int) -> list[str]:
        for slot, member in enumerate(self._crew):
            if member is None:
                self._crew[slot] = self._start(slot)
        self._let_them(self._random.randint(20, 400))
        if self._random.random() < 0.5:
            self._pause(self._random.randrange(len(CREW)))
        victims = self._random.choice([1, 1, 2, 3, len(CREW)])
        self._kill(self._random.sample(range(len(CREW)), victims))
        self.ledger.update()
        return self.ledger.problems or self._verify(number, alone=victims == len(CREW))

    # -- the crew -------------------------------------------------------------------------------------------

    def _start(self, slot: int) -> ForkServerProcess:
        self._births += 1
        who = f"{CREW[slot]}{slot}.{self._births}"
        arguments = (CREW[slot], str(self.data), str(self.notes / f"{slot}"), who, self._random.getrandbits(32))
        process = self._context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    def _let_them(self, acknowledgements: int) -> None:
        """Wait until so many lines more were acknowledged, or a quarter of a second after the first."""
        self.ledger.update()
        before, begun, first = self.ledger.acknowledged, time.monotonic(), 0.0
        while self.ledger.acknowledged < before + acknowledgements and not self.ledger.problems:
            now = time.monotonic()
            if self.ledger.acknowledged > before:
                first = first or now
                if now - first > 0.25:
                    return
            elif now - begun > STUCK:
                self.ledger.problems.append(f"nothing was acknowledged within {STUCK:g} s")
            time.sleep(0.005)
            self.ledger.update()

    def _pause(self, slot: int) -> None:
        """Stop one worker at whatever it does, and let the others work; half of the time it is killed where it stands."""
        member, seconds, dies = self._crew[slot], self._random.random() * 0.3, self._random.random() < 0.5
        assert member is not None
        assert member.pid is not None
        with suppress(ProcessLookupError):  # it ended by itself, and has noted why
            os.kill(member.pid, signal.SIGSTOP)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.01)
            if dies:
                self._kill([slot])
            else:
                os.kill(member.pid, signal.SIGCONT)

    def _kill(self, slots: list[int] | range) -> None:
        for slot in slots:
            if (member := self._crew[slot]) is not None:
                member.kill()
        for slot in slots:
            if (member := self._crew[slot]) is not None:
                member.join()
                self._crew[slot] = None

    # -- what must be there ---------------------------------------------------------------------------------

    def _verify(self, number: int, *, alone: bool) -> list[str]:
        """Open the log beside the living, or as the only process, and compare."""
        problems: list[str] = []
        with EmbeddedLog(self.data) as log:
            for topic in KEPT:
                value = f"test.{number}:0:u:test.{number}:".encode()
                record = Record(f"test.{number}".encode(), value)
                (offset,) = log.claim(topic, 0).append([record]) if topic == "claimed" and alone else [-1]
                if topic != "claimed":
                    (offset,) = log.append(topic, 0, [record])
                if offset >= 0:
                    self.ledger._acknowledge(0, 0, topic, offset, value.decode())
                problems += self._compare(log, topic)
                problems += [f"{topic}: check says {damage}" for damage in check(log.reader(topic, 0)).damage]
            problems += self._brief(log)
        return self.ledger.problems + problems

    def _compare(self, log: EmbeddedLog, topic: str) -> list[str]:
        start = log.bounds(topic, 0).start
        stored = {record.offset or 0: record for record in _everything(log, topic, start)}
        self.ledger.update()  # afterwards: what was meant to be deleted meanwhile is known now
        newest = {record.key: offset for offset, record in stored.items()}
        kept, low = self.ledger.kept[topic], self.ledger.deleted[topic]
        end = max(stored, default=0)
        problems = []
        for offset in sorted(kept):
            value = kept[offset]
            if offset < low:
                del kept[offset]
            elif offset in stored:
                if (stored[offset].value or b"").decode() != value:
                    problems.append(f"{topic}: offset {offset} holds {stored[offset].value!r}, acknowledged was {value}")
            elif offset <= end:
                _, _, kind, key, _ = value.split(":", 4)
                if kind != SHARED or newest.get(key.encode(), -1) < offset:
                    problems.append(f"{topic}: offset {offset} is missing, acknowledged was {value}; start {start}, deleted below {low}")
                else:
                    del kept[offset]  # compacted: a newer one of its key is there
        return problems

    def _brief(self, log: EmbeddedLog) -> list[str]:
        """What was appended after the topic was last made, and before anybody meant to delete it, is in it."""
        self.ledger.update()
        if self._crew[CREW.index("recreate")] is None:  # killed, perhaps between deleting and making it
            log.create_topic(BRIEF)
            self.ledger.there_from = time.monotonic()
        made = self.ledger.there_from
        self.ledger.brief = [one for one in self.ledger.brief if one[0] > made]
        acknowledged = list(self.ledger.brief)
        stored, problems = {}, []
        try:
            stored = {record.offset: (record.value or b"").decode() for record in _everything(log, BRIEF, 0)}
        except HeadwaterError as error:
            problems = [f"{BRIEF}: {type(error).__name__}: {error}"]
        self.ledger.update()
        if self.ledger.gone_from > made or self.ledger.there_from != made:
            return []  # it was deleted meanwhile
        if problems:
            return problems
        return [
            f"{BRIEF}: offset {offset} holds {stored.get(offset)}, acknowledged {begun - made:.4f} s after it was made was {value}"
            for begun, _, offset, value in acknowledged
            if stored.get(offset) != value
        ]


def _everything(log: EmbeddedLog, topic: str, start: int) -> list[Record]:
    found: list[Record] = []
    while True:
        try:
            records = log.read(topic, 0, start, limit=100_000, max_bytes=1 << 30)
        except OffsetGone:  # deleted meanwhile
            start = log.bounds(topic, 0).start
            continue
        if not records:
            return found
        found += records
        start = (records[-1].offset or 0) + 1
