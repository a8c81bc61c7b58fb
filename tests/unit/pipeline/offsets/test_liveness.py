"""Whether a run is still there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from headwater.pipeline.offsets.liveness import lives
from headwater.pipeline.offsets.state import RunInfo


def run(process: str, state: str = "running") -> RunInfo:
    return RunInfo(epoch=1, id="r", began=0, state=state, process=process)  # type: ignore[arg-type]


def test_a_run_lives_while_its_process_does() -> None:
    here = socket.gethostname()
    assert lives(run(f"{here}:{os.getpid()}"))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not lives(run(f"{here}:{gone.pid}"))


def test_a_run_that_has_ended_does_not_live() -> None:
    assert not lives(None)
    assert not lives(run(f"{socket.gethostname()}:{os.getpid()}", "done"))


def test_a_run_of_another_machine_is_believed() -> None:
    assert lives(run("elsewhere:1"))
    assert lives(run(""))
