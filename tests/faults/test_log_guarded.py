"""Guarded appends on a disk that fails and by processes that die: each record stands right behind the one that its writer had seen."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from guarded_chain import chained, links, sure

from headwater.core.errors import Conflict, HeadwaterError
from headwater.log import Guard, Record
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

BOOT, OTHER_BOOT = b"b" * 16, b"o" * 16
ROUNDS = max(2, int(os.environ.get("SOAK_KILL_ROUNDS", "8")) // 4)


class Chain:
    """Two logs on one partition, one of them on a disk that fails, append in turns."""

    def __init__(self, data: Path, files: FailingFiles) -> None:
        self.files, self.clock = files, ManualClock(wakes=False)
        self.logs = [EmbeddedLog(data, files=each, clock=self.clock, boot=BOOT) for each in (files, FailingFiles())]
        self.acknowledged: dict[int, bytes] = {}
        self.errors = 0

    def tell(self) -> None:
        self.logs[1].create_topic("t", settings=TopicSettings(segment=300))
        for number in range(8):
            if number == 4:
                self.clock.advance(2)  # the next append replaces the manifest
            for which in (0, 0, 1):
                self._try(which, b"%d/%d" % (number, which))
            self._refused(number % 2)
        for log in self.logs:
            crash(log)

    def _try(self, which: int, name: bytes) -> None:
        try:
            self.acknowledged[chained(self.logs[which], name)] = name
        except HeadwaterError:
            self.errors += 1

    def _refused(self, which: int) -> None:
        """An append that is refused, whatever fails meanwhile."""
        log = self.logs[which]

        def refuse(records: Sequence[Record]) -> None:
            raise Conflict("as always")

        with pytest.raises(HeadwaterError):
            log.append("t", 0, [Record(b"k", b"never")], guard=Guard(max(0, log.bounds("t", 0).end - 2), refuse))


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_fails_the_chain_holds(memory_path: Path, number: int, forever: bool) -> None:
    sound = Chain(memory_path / "sound", FailingFiles())
    sound.tell()
    assert not sound.errors
    assert len(sound.acknowledged) == 24
    assert sound.files.calls > 50
    for n in range(1, sound.files.calls + 1):
        data = memory_path / f"{n}"
        chain = Chain(data, FailingFiles(n, forever=forever, number=number))
        chain.tell()
        with EmbeddedLog(data, clock=chain.clock, boot=BOOT if n % 2 else OTHER_BOOT) as log:
            sure(log, b"after")
            found = links(log)
            assert chain.acknowledged.items() <= found.items()
            assert b"never" not in found.values()
            assert not check(log.reader("t", 0)).damage


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from headwater.core.errors import Conflict
from headwater.log.embedded.log import EmbeddedLog
from guarded_chain import chained

log, number = EmbeddedLog(sys.argv[2]), 0
while True:
    name = b"%s:%d" % (sys.argv[3].encode(), number)
    try:
        offset = chained(log, name)
    except Conflict:
        continue
    number += 1
    sys.stdout.write(f"{offset} {name.decode()}\\n")
    sys.stdout.flush()
"""


def test_processes_that_are_killed_leave_a_whole_chain(memory_path: Path) -> None:
    with EmbeddedLog(memory_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=20_000))
    acknowledged: dict[int, bytes] = {}
    for turn in range(ROUNDS):
        command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(memory_path)]
        writers = [subprocess.Popen([*command, f"{turn}-{who}"], stdout=subprocess.PIPE) for who in range(3)]
        for place, writer in enumerate(writers):
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(3 + 2 * place)]  # killed wherever it then is
            writer.send_signal(signal.SIGKILL)
            lines += [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
            acknowledged.update((int(offset), name) for offset, name in (line.split() for line in lines))
            writer.wait()
            writer.stdout.close()
        with EmbeddedLog(memory_path) as log:
            sure(log, b"survivor %d" % turn)
            assert acknowledged.items() <= links(log).items()
            assert not check(log.reader("t", 0)).damage
