"""A life of a log, told under strace: python power_workload.py DATA NOTES SEED STEPS

What begins and what is acknowledged is written to NOTES, one JSON line per call of write: the trace puts those lines in order with
everything else. A second process, forked, writes beside the first now and then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any

import headwater.log.embedded.columns
import headwater.log.embedded.compaction  # noqa: F401  # imported before the first step, so that the trace holds steps alone
from headwater.core.disposal import DISPOSALS
from headwater.core.errors import UnknownTopic
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.transporter import import_transporter
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import DyingFiles

BEFORE = b"b" * 16  # the boot that ends with the power


class Notes:
    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, **what: Any) -> None:
        os.write(self._fd, json.dumps(what).encode() + b"\n")


class Life:
    """Steps chosen by a seed over two topics; `number` makes every value its own."""

    def __init__(self, data: Path, notes: Notes, random: Random) -> None:
        self.data, self.notes, self.random = data, notes, random
        self.clock = ManualClock(wakes=False)
        self.number = 0
        self.who = "a"
        self.epochs: dict[str, int] = {}
        self.settings = TopicSettings(
            segment=random.choice([300, 6000, 1 << 20]),
            period=random.choice([0, 0, 5000]),
            max_record=random.choice([1 << 20, 16 << 20]),
            disposal=random.choice(DISPOSALS),
        )
        self.log = self._open()

    def _open(self) -> EmbeddedLog:
        return EmbeddedLog(self.data, clock=self.clock, boot=BEFORE)

    def live(self, steps: int) -> None:
        self.create("t")
        kinds = [self.append] * 12 + [
            self.delete_before,
            self.roll,
            self.compact,
            self.compact,
            self.claim,
            self.reopen,
            *[self.beside] * 3,
        ]
        kinds += [self.recreate, self.bring_in]
        for _ in range(steps):
            self.random.choice(kinds)()
            self._page()
        if self.random.random() < 0.5:
            self.log.close()

    def create(self, topic: str) -> None:
        self.notes.write(begin="create", topic=topic)
        made = self.log.create_topic(topic, settings=self.settings if topic == "t" else None)
        self.epochs[topic] = 0
        self.notes.write(done="create", topic=topic, generation=made.generation)

    def append(self) -> None:
        records = []
        for _ in range(self.random.choice([1, 1, 2, 4])):
            self.number += 1
            value = f"{self.who}{self.number}-" + "x" * self.random.choice([0, 10, 200, 3000, 9000])
            key = self.random.choice([None, f"k{self.random.randrange(3)}"])
            records.append(Record(key.encode() if key else None, value.encode()))
        told = [[record.key.decode() if record.key else None, (record.value or b"").decode()] for record in records]
        self.notes.write(begin="append", topic="t", records=told)
        epoch = self.epochs["t"]
        offsets = self._owner().append(records) if epoch else self.log.append("t", 0, records)
        self.notes.write(done="append", topic="t", offsets=list(offsets), records=told)
        self.clock.advance(self.random.choice([0, 0.2, 1.5, 3]) - (4 if self.random.random() < 0.1 else 0))

    def delete_before(self) -> None:
        bounds = self.log.bounds("t", 0)
        offset = self.random.randint(bounds.start, bounds.end)
        self.notes.write(begin="delete_before", topic="t", offset=offset)
        start = self._owner().delete_before(offset) if self.epochs["t"] else self.log.delete_before("t", 0, offset)
        self.notes.write(done="delete_before", topic="t", offset=start)

    def compact(self) -> None:
        self.notes.write(begin="compact", topic="t")
        self._owner().compact(self.random.choice([None, self.log.bounds("t", 0).end]))
        self.notes.write(done="compact", topic="t")

    def roll(self) -> None:
        self._owner().roll()

    def _owner(self) -> Writer:
        return self.log.writer("t", 0, self.epochs["t"])

    def claim(self) -> None:
        self.notes.write(begin="claim", topic="t")
        self.epochs["t"] = self.log.claim("t", 0).epoch
        self.notes.write(done="claim", topic="t", epoch=self.epochs["t"])

    def reopen(self) -> None:
        self.log.close()
        self.log = self._open()

    def beside(self) -> None:
        """Another process joins, works, and leaves: by closing, by dying at its end, or by dying between two calls that change the disk."""
        alone = self.random.random() < 0.3
        if alone:
            self.log.close()
        child = os.fork()
        if not child:
            self.who = f"{self.who}b{self.number}."
            dying = DyingFiles(self.random.randint(1, 25)) if self.random.random() < 0.6 else None
            self.log = EmbeddedLog(self.data, clock=self.clock, boot=BEFORE, files=dying)
            for _ in range(self.random.randint(1, 4)):
                self.random.choice([self.append] * 6 + [self.claim, self.compact, self.delete_before, self.recreate])()
            if self.random.random() < 0.5:
                self.log.close()
            os._exit(0)
        if os.waitpid(child, 0)[1] not in (0, signal.SIGKILL):
            os._exit(1)  # it has noted why
        if alone:
            self.log = self._open()
        self._find_topic()
        self.epochs["t"] = self.log.epoch("t", 0)

    def _find_topic(self) -> None:
        """A process may have died while it deleted the topic: then it is there or not."""
        try:
            self.log.claim("t", 0)
        except UnknownTopic:
            if any(topic.name == "t" for topic in self.log.topics()):
                self.recreate()
            else:
                self.create("t")
        else:
            self.notes.write(done="found", topic="t")

    def recreate(self) -> None:
        self.notes.write(begin="delete_topic", topic="t")
        self.log.delete_topic("t")
        self.notes.write(done="delete_topic", topic="t")
        self.create("t")

    def bring_in(self) -> None:
        """Import a transporter log that another program wrote, once."""
        topic, source = "imported", self.data.parent.parent / "transporter"
        if topic in self.epochs or not source.is_dir():
            return
        self.epochs[topic] = 0
        self.notes.write(begin="import", topic=topic)
        import_transporter(self.log, source, topic)
        records = self.log.read(topic, 0, self.log.bounds(topic, 0).start, limit=10_000)
        told = [[record.key.decode() if record.key else None, (record.value or b"").decode()] for record in records]
        self.notes.write(done="append", topic=topic, offsets=[record.offset for record in records], records=told)

    def _page(self) -> None:
        """The commit page as it is now: stores into a map are no system calls."""
        for path in self.data.glob("log/*/0/commit"):
            self.notes.write(page=str(path), bytes=path.read_bytes()[:512].hex())


def main() -> int:
    data, notes, seed, steps = sys.argv[1:]
    written = Notes(notes)
    written.write(begin="life")
    try:
        Life(Path(data), written, Random(int(seed))).live(int(steps))
    except Exception:
        written.write(error=traceback.format_exc())
    return 0


if __name__ == "__main__":
    sys.exit(main())
