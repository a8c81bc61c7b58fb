from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from headwater.cli.stop import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.stopped()
        os.kill(os.getpid(), number)
        assert stop.event.wait(5)
        assert stop.stopped()
    assert signal.getsignal(number) is before


def test_the_second_ctrl_c_ends_at_once() -> None:
    """Even where the clean way out hangs."""
    script = """
import os, signal, threading
from headwater.cli.stop import StopSignal
with StopSignal() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    stop.event.wait(5)
    print("stopping", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "stopping\n")
