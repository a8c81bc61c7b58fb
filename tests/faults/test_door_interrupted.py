"""An interrupt while the blocking door opens leaves nothing that hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INTERRUPTED = """
import random, signal, sys, threading
import headwater, headwater.client.local, anyio._backends._asyncio

def interrupt(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
random.seed(7)
interrupted = 0
for _ in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.006))
        with headwater.open_blocking(sys.argv[1], create=True) as hw:
            hw.log.topics()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
assert interrupted > 5, interrupted
"""


def test_an_interrupt_at_any_moment_of_opening_hangs_nothing(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", INTERRUPTED, str(tmp_path)], check=True, timeout=120)
