from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from headwater.cli.stop import Interrupted, InterruptSignal, StopSignal, Terminated


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        assert not stop.stopped()
        os.kill(os.getpid(), number)
        assert stop.event.wait(60)
        assert stop.stopped()
    assert signal.getsignal(number) is before


def test_the_second_ctrl_c_ends_at_once() -> None:
    """Even where the clean way out hangs."""
    script = """
import os, signal, threading
from headwater.cli.stop import Interrupted, InterruptSignal, StopSignal, Terminated
with StopSignal() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    stop.event.wait(60)
    print("stopping", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout) == (130, "stopping\n")


@pytest.mark.parametrize(("number", "kind", "code"), [(signal.SIGINT, Interrupted, 130), (signal.SIGTERM, Terminated, 143)])
def test_a_signal_interrupts_a_command_that_finishes_nothing(number: signal.Signals, kind: type[Interrupted], code: int) -> None:
    before = signal.getsignal(number)
    with InterruptSignal() as signals:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        error = signals.error("Stopped.")
    assert (type(error), error.exit_code) == (kind, code)
    assert signal.getsignal(number) is before


def test_the_first_signal_waits_for_what_is_being_finished() -> None:
    done = []
    with InterruptSignal() as signals:
        with pytest.raises(KeyboardInterrupt), signals.finishing():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("first")
        with pytest.raises(KeyboardInterrupt), signals.finishing():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("never")
        assert isinstance(signals.error("Stopped."), Terminated)  # the first one counts
    assert done == ["first"]


def test_an_error_of_what_is_being_finished_comes_before_the_signal() -> None:
    with InterruptSignal() as signals, pytest.raises(ValueError, match="its own"), signals.finishing():
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError("its own")


def test_what_takes_too_long_is_not_waited_for() -> None:
    with InterruptSignal(grace=0.05) as signals, pytest.raises(KeyboardInterrupt), signals.finishing():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(60)
        raise AssertionError
    assert isinstance(signals.error("Stopped."), Terminated)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
