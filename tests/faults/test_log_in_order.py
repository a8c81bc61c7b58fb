"""Group commit in order, on a disk that fails and in a process that dies: the log holds a beginning of the calls, without a gap."""

from __future__ import annotations

import asyncio
import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.errors import HeadwaterError
from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.group_commit import OrderedAppender
from headwater.log.record import Record, TopicSettings
from headwater.testing.clock import ManualClock
from headwater.testing.faults import FailingFiles, crash

BOOT = b"b" * 16
CALLS = 24


async def numbered(log: EmbeddedLog) -> list[int]:
    """Number calls and make them, three or so at a time; return the numbers that were acknowledged."""
    appender = OrderedAppender(lambda batch: log.append("t", 0, batch), check=lambda records: encode(records, now=0))
    acknowledged: list[int] = []
    waiting: list[tuple[int, asyncio.Future[object]]] = []
    for number in range(CALLS):
        try:
            waiting.append((number, appender.append([Record(b"k", b"%d" % number)])))  # type: ignore[arg-type]
        except HeadwaterError:
            break  # the number is not taken: nobody builds on it
        if number % 3 == 2:
            await asyncio.wait([waiting[-3][1]])
    outcomes = await asyncio.gather(*(future for _, future in waiting), return_exceptions=True)
    for (number, _), outcome in zip(waiting, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, HeadwaterError), outcome
        else:
            acknowledged.append(number)
    await appender.aclose()
    return acknowledged


def story(data: Path, files: FailingFiles) -> list[int]:
    with EmbeddedLog(data, clock=ManualClock(wakes=False), boot=BOOT) as log:
        log.create_topic("t", settings=TopicSettings(segment=200))
    log = EmbeddedLog(data, files=files, clock=ManualClock(wakes=False), boot=BOOT)
    try:
        return asyncio.run(numbered(log))
    finally:
        crash(log)


def values(data: Path) -> list[bytes | None]:
    with EmbeddedLog(data, boot=BOOT) as log:
        log.append("t", 0, [Record(b"k", b"after")])
        assert not check(log.reader("t", 0)).damage
        found = [record.value for record in log.read("t", 0, 0)]
        assert found.pop() == b"after"
        return found


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from-then-on"])
def test_whatever_call_fails_the_log_holds_a_beginning(memory_path: Path, number: int, forever: bool) -> None:
    files = FailingFiles()
    assert story(memory_path / "sound", files) == list(range(CALLS))
    failed = 0
    for n in range(1, files.calls + 1):
        data = memory_path / f"{n}"
        acknowledged = story(data, FailingFiles(n, forever=forever, number=number))
        found = values(data)
        assert found == [b"%d" % each for each in range(len(found))], "a call behind a failed one is there"
        assert acknowledged == list(range(len(acknowledged)))
        assert len(acknowledged) <= len(found)
        failed += len(acknowledged) < CALLS
    assert failed > 10


WRITER = """
import asyncio, sys
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.group_commit import OrderedAppender
from headwater.log.record import Record

async def main():
    log = EmbeddedLog(sys.argv[1])
    appender = OrderedAppender(lambda batch: log.append("t", 0, batch), check=lambda records: encode(records, now=0))
    number = int(sys.argv[2])

    def told(future):
        if future.exception() is None:
            sys.stdout.write("acknowledged\\n")

    while True:
        for _ in range(7):
            waiting = appender.append([Record(b"k", b"%d" % number)])
            waiting.add_done_callback(told)
            number += 1
        await waiting
        sys.stdout.flush()

asyncio.run(main())
"""


def test_a_killed_process_leaves_a_beginning(memory_path: Path) -> None:
    with EmbeddedLog(memory_path) as log:
        log.create_topic("t", settings=TopicSettings(segment=5000))
    begin = 0
    for turn in range(3):
        command = [sys.executable, "-c", WRITER, str(memory_path), str(begin)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(20 + 17 * turn)]
            writer.send_signal(signal.SIGKILL)
            acknowledged = len(lines) + writer.stdout.read().count(b"\n")
        with EmbeddedLog(memory_path) as log:
            log.partition("t", 0)  # recovers
        with EmbeddedLog(memory_path) as log:
            found = [record.value for record in log.read("t", 0, 0, limit=100_000)]
        assert found == [b"%d" % number for number in range(len(found))]
        assert len(found) >= begin + acknowledged
        begin = len(found)
