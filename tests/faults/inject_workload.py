"""Short lives of a log under a strace that fails one system call: python inject_workload.py ROOT WHEN CALL:N [CALL:N …]

strace counts the calls of each kind and process from its beginning, and fails the one of number WHEN. Each life has a process of its own,
which makes so many harmless calls first that the Nth such call of its life is that one: a life then costs a fork, not the start of an
interpreter. N = 0 makes none, and so counts the calls of a life.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import headwater.log.embedded.columns
import headwater.log.embedded.compaction  # noqa: F401  # imported before the first step
from headwater.core.errors import HeadwaterError
from headwater.log import Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock

BOOT = b"b" * 16


class Life:
    """Everything that the log does, once. What raises an error of ours is left, and the next thing tried."""

    def __init__(self, data: Path, notes: int) -> None:
        self.data, self._notes, self.clock, self.number = data, notes, ManualClock(wakes=False), 0

    def write(self, **what: Any) -> None:
        os.write(self._notes, json.dumps(what).encode() + b"\n")

    def live(self) -> None:
        if self._tried(self._open):
            self._in_order()

    def _in_order(self) -> None:
        settings = TopicSettings(segment=300, disposal="secure-reset")
        if not self._tried(lambda: self._create("t", settings)):
            return
        for size in (1, 3, 2, 4):
            self._tried(lambda size=size: self._append("t", size))
        self.clock.advance(2)  # the manifest is brought up to date
        self._tried(lambda: self._append("t", 1))
        self._tried(lambda: self._delete_before("t", 3))
        self._tried(lambda: self._compact("t"))
        self._tried(self._read)
        if self._tried(self._reopen):
            self._tried(lambda: self._append("t", 2))
            self._tried(lambda: self._claim("t"))
            self._tried(lambda: self._append("t", 1))
            self._tried(lambda: self._roll("t"))
            self._tried(lambda: self._delete_before("t", 5))
            if self._tried(lambda: self._create("u", None)) and self._tried(lambda: self._append("u", 1)):
                deleted = self._tried(lambda: self._delete_topic("u"))
                if deleted and self._tried(lambda: self._create("u", None)):
                    self._tried(lambda: self._append("u", 1))
            self._tried(lambda: self._append("t", 2))
            self._tried(self.log.close)

    def _tried(self, step: Callable[[], object]) -> bool:
        try:
            step()
        except HeadwaterError as error:
            self.write(failed=type(error).__name__, said=str(error))
            return False
        return True

    def _open(self) -> None:
        self.log = EmbeddedLog(self.data, clock=self.clock, boot=BOOT)

    def _reopen(self) -> None:
        self.log.close()
        self._open()

    def _create(self, topic: str, settings: TopicSettings | None) -> None:
        self.write(begin="create", topic=topic)
        self.write(done="create", topic=topic, generation=self.log.create_topic(topic, settings=settings).generation)

    def _append(self, topic: str, size: int) -> None:
        records = [Record(b"k%d" % (i % 2), b"value-%d" % (self.number + i)) for i in range(size)]
        self.number += size
        told = [[(record.key or b"").decode(), (record.value or b"").decode()] for record in records]
        self.write(begin="append", topic=topic, records=told)
        epoch = self.log.epoch(topic, 0)
        offsets = self._owner(topic).append(records) if epoch else self.log.append(topic, 0, records)
        self.write(done="append", topic=topic, offsets=list(offsets), records=told)

    def _delete_before(self, topic: str, offset: int) -> None:
        self.write(begin="delete_before", topic=topic, offset=offset)
        self.write(done="delete_before", topic=topic, offset=self._owner(topic).delete_before(offset))

    def _compact(self, topic: str) -> None:
        self.write(begin="compact", topic=topic)
        self._owner(topic).compact()

    def _roll(self, topic: str) -> None:
        self._owner(topic).roll()

    def _owner(self, topic: str) -> Writer:
        return self.log.writer(topic, 0, self.log.epoch(topic, 0))

    def _claim(self, topic: str) -> None:
        self.write(begin="claim", topic=topic)
        self.write(done="claim", topic=topic, epoch=self.log.claim(topic, 0).epoch)

    def _delete_topic(self, topic: str) -> None:
        self.write(begin="delete_topic", topic=topic)
        self.log.delete_topic(topic)
        self.write(done="delete_topic", topic=topic)

    def _read(self) -> None:
        bounds = self.log.bounds("t", 0)
        self.log.read("t", 0, bounds.start)
        list(self.log.scan("t", 0, bounds.start))


def harmless(root: Path, file: int) -> dict[str, Callable[[], object]]:
    """A call of each kind that changes nothing but the scratch `file`."""
    absent = root / "absent" / "absent"
    return {
        "openat": lambda: os.close(os.open("/dev/null", os.O_RDONLY)),
        "pwritev2": lambda: os.pwritev(file, [b"x"], 0),
        "pread64": lambda: os.pread(file, 1, 0),
        "read": lambda: os.read(file, 1),
        "fsync": lambda: os.fsync(file),
        "fdatasync": lambda: os.fdatasync(file),
        "ftruncate": lambda: os.ftruncate(file, 1),
        "rename": lambda: os.rename(absent, absent),
        "unlink": lambda: os.unlink(absent),
        "mkdir": lambda: os.mkdir(absent),
    }


def hung(number: int, frame: object) -> None:
    raise TimeoutError("it hangs")


def one(root: Path, when: int, name: str, number: int, notes: int, scratch: int) -> None:
    """The life whose call `number` of this name fails."""
    life = Life(root / f"{name}:{number}", notes)
    if number:
        call = harmless(root, scratch)[name]
        for _ in range(when - number):
            with suppress(FileNotFoundError):
                call()
    else:
        life.write(process=os.getpid())
    signal.signal(signal.SIGALRM, hung)
    signal.alarm(20)
    try:
        life.live()
    except BaseException:
        life.write(error=traceback.format_exc())
    life.write(ended=True)


def main() -> None:
    root, when, *lives = sys.argv[1:]
    scratch = os.open(Path(root) / "scratch", os.O_RDWR | os.O_CREAT, 0o644)
    for life in lives:
        name, number = life.split(":")
        notes = os.open(Path(root) / f"{life}.notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)  # not among the calls of the life
        child = os.fork()
        if not child:
            one(Path(root), int(when), name, int(number), notes, scratch)
            os._exit(0)
        os.close(notes)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
