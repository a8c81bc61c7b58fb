"""How a server stops its tour."""

from __future__ import annotations

import subprocess
import sys

STOPPED = """
import signal, sys, weakref
from headwater.cli.demo import hear_interrupts

class Thing:
    pass

signal.signal(signal.SIGINT, signal.default_int_handler)
hear_interrupts()
thing = Thing()
watch = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
try:
    del thing
    while True:
        signal.pause()
except KeyboardInterrupt:
    print("stopped")
"""


def test_a_stop_within_a_callback_that_python_ignores_is_heard_all_the_same() -> None:
    ran = subprocess.run([sys.executable, "-c", STOPPED], check=True, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("stopped\n", "")
