"""kill -9 at random moments and at exact ones: everything acknowledged is there afterwards, and the others go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kill_rounds import Rounds

from headwater.log.embedded.check import check
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

ROUNDS = int(os.environ.get("SOAK_KILL_ROUNDS", "8"))


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_acknowledged_is_missing_whoever_is_killed(tmp_path: Path, memory_path: Path, seed: int) -> None:
    """Writers, readers, compaction and deletion beside each other; on disk, and in memory, where everything is nearer together."""
    folder = (tmp_path if seed % 2 else memory_path) / "rounds"
    problems = Rounds(folder, seed).run(ROUNDS)
    if problems:
        kept = shutil.copytree(folder, tmp_path / "kept") if seed % 2 == 0 else folder
        pytest.fail(f"{len(problems)} problems; the files are kept in {kept}:\n" + "\n".join(problems[:5]), pytrace=False)


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
