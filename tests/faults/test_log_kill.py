"""kill -9 of one of several appending processes, at random moments. Each tells what was acknowledged to it through a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

ROUNDS = int(os.environ.get("HEADWATER_KILL_ROUNDS", "12"))

APPENDING = """
import itertools, os, sys
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

data, who = sys.argv[1:]
with EmbeddedLog(data) as log:
    for n in itertools.count():
        values = [f"{who}-{n}-{i}".encode() + b"x" * (n % 50) for i in range(n % 4 + 1)]
        offsets = log.append("t", 0, [Record(b"k", value) for value in values])
        lines = "".join(f"{offset} {value.decode()}\\n" for offset, value in zip(offsets, values))
        os.write(1, lines.encode())  # one write below PIPE_BUF: whole or not at all
"""


def start(data: Path, who: str, out: Path) -> subprocess.Popen[bytes]:
    with out.open("ab") as file:
        return subprocess.Popen([sys.executable, "-c", APPENDING, str(data), who], stdout=file, stderr=subprocess.PIPE)


def wait_for_lines(out: Path, more_than: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not out.exists() or out.read_bytes().count(b"\n") <= more_than:
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline, "the appending process is stuck"
        time.sleep(0.01)


def test_the_others_go_on_and_nothing_acknowledged_is_missing(tmp_path: Path) -> None:
    random, data = Random(1), tmp_path / "data"
    with EmbeddedLog(data) as log:
        log.create_topic("t", settings=TopicSettings(segment=20_000))
    outs = [tmp_path / f"out-{i}" for i in range(3)]
    running = [start(data, f"w{i}", outs[i]) for i in range(3)]
    try:
        for number in range(ROUNDS):
            victim = random.randrange(3)
            seen = outs[victim].read_bytes().count(b"\n") if outs[victim].exists() else 0
            wait_for_lines(outs[victim], seen + random.randint(0, 40), running[victim])
            running[victim].kill()
            running[victim].wait()
            if number % 4 == 3:  # everybody dies: the next one recovers alone
                for process in running:
                    process.kill()
                    process.wait()
                running = [start(data, f"w{i}-{number}", outs[i]) for i in range(3)]
            else:
                running[victim] = start(data, f"w{victim}-{number}", outs[victim])
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            _, said = process.communicate()
            assert not said, said.decode()
    acknowledged = {}
    for out in outs:
        for line in out.read_text().splitlines():
            offset, value = line.split()
            assert int(offset) not in acknowledged, "an offset was acknowledged twice"
            acknowledged[int(offset)] = value.encode()
    with EmbeddedLog(data) as log:
        log.append("t", 0, [Record(b"k", b"after")])
        stored = {record.offset: record.value for record in log.read("t", 0, 0, limit=10**9, max_bytes=1 << 40)}
        assert len(stored) == log.bounds("t", 0).end
        wrong = {offset: (value, stored.get(offset)) for offset, value in acknowledged.items() if stored.get(offset) != value}
        assert not wrong
        assert not check(log.reader("t", 0)).damage
    assert len(acknowledged) > ROUNDS


@pytest.mark.parametrize("what", ["append", "compact"])
def test_a_process_that_dies_between_two_steps_is_finished_by_the_next(tmp_path: Path, what: str) -> None:
    """Dies at exact places, by a file system that ends the process: beside another one that stays alive and goes on."""
    script = """
import os, sys
from pathlib import Path
from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

class Dying(Files):
    countdown = 0
    def rename(self, old, new):
        super().rename(old, new)
        self._step()
    def sync_dir(self, path):
        super().sync_dir(path)
        self._step()
    def unlink(self, path):
        self._step()
        super().unlink(path)
    def _step(self):
        Dying.countdown -= 1
        if Dying.countdown == 0:
            os.kill(os.getpid(), 9)

log = EmbeddedLog(sys.argv[1], files=Dying())
for i in range(5):
    log.append("t", 0, [Record(b"k", b"%d" % i)])
Dying.countdown = int(sys.argv[2])
if sys.argv[3] == "compact":
    log.compact("t", 0)
else:
    for i in range(5, 10):
        log.append("t", 0, [Record(b"k", b"%d" % i)])
"""
    for countdown in range(1, 12):
        data = tmp_path / f"{countdown}"
        with EmbeddedLog(data) as log:
            log.create_topic("t", settings=TopicSettings(segment=100))
            log.append("t", 0, [Record(b"k", b"first")])
            done = subprocess.run([sys.executable, "-c", script, str(data), str(countdown), what], capture_output=True)
            assert not done.stderr, done.stderr.decode()
            before = [record.value for record in log.read("t", 0, 0)]
            log.append("t", 0, [Record(b"k", b"survivor")])
            log.append("t", 0, [Record(b"k", b"goes on")])
            values = [record.value for record in log.read("t", 0, 0)]
            assert values[-2:] == [b"survivor", b"goes on"]
            assert values[: len(before)] == before
        with EmbeddedLog(data) as log:
            log.append("t", 0, [Record(b"k", b"last")])
            assert [record.value for record in log.read("t", 0, 0)] == [*values, b"last"]
            assert not check(log.reader("t", 0)).damage
