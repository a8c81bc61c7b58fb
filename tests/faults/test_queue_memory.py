"""A queue holds more data than the memory of its process, also after kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

WORKLOAD = Path(__file__).with_name("queue_memory_workload.py")
ROWS = int(os.environ.get("SOAK_QUEUE_ROWS", "5000"))


def test_a_queue_holds_more_data_than_memory(tmp_path: Path) -> None:
    for what in ("put", "take"):
        done = subprocess.run(
            [sys.executable, str(WORKLOAD), str(tmp_path / "data"), what, str(ROWS)],
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # others take more from the system than they need
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"done\n"), done.stderr.decode()[-2000:]
