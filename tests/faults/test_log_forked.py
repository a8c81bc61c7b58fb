"""A process forks while another of its threads holds a lock: the child, which knows nothing of it, must not keep it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings

SOON = 20.0  # seconds; whoever takes longer hangs


@contextmanager
def child() -> Iterator[None]:
    """A forked process that lives meanwhile and does nothing."""
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Stopping(Files):
    """The next directory sync, or the next removal of a file, waits in the middle of its call until the process has forked."""

    def __init__(self) -> None:
        self.armed = False
        self.reached, self.forked = threading.Event(), threading.Event()

    def _stop(self) -> None:
        if self.armed:
            self.armed = False
            self.reached.set()
            self.forked.wait(SOON)

    def sync_dir(self, path: Path) -> None:
        self._stop()
        super().sync_dir(path)

    def unlink(self, path: Path) -> None:
        self._stop()
        super().unlink(path)


def _compact(log: EmbeddedLog) -> None:
    log.compact("t", 0)


def _open(log: EmbeddedLog) -> None:
    log.append("fresh", 0, [Record(b"k", b"v")])


CALLS: dict[str, Callable[[EmbeddedLog], object]] = {
    "create": lambda log: log.create_topic("new"),
    "delete": lambda log: log.delete_topic("old"),
    "open": _open,
    "compact": _compact,
}


@pytest.mark.parametrize("what", CALLS)
def test_a_child_forked_in_the_middle_of_a_call_keeps_nobody_waiting(tmp_path: Path, what: str) -> None:
    files = Stopping()
    with EmbeddedLog(tmp_path, files=files) as log, EmbeddedLog(tmp_path) as other:
        for name in ("t", "old", "fresh"):
            log.create_topic(name, settings=TopicSettings(segment=1))
        for name in ("t", "t", "t", "old"):
            log.append(name, 0, [Record(b"k", b"v")])
        files.armed = True
        caller = threading.Thread(target=CALLS[what], args=(log,), daemon=True)
        caller.start()
        assert files.reached.wait(SOON)
        with child():
            files.forked.set()
            caller.join(SOON)
            assert not caller.is_alive()

            def go_on() -> None:
                other.create_topic("another")
                other.append("another", 0, [Record(b"k", b"v")])
                other.append("fresh", 0, [Record(b"k", b"v")])
                other.compact("t", 0)
                other.delete_topic("another")
                done.set()

            done = threading.Event()
            threading.Thread(target=go_on, daemon=True).start()
            assert done.wait(SOON), "it hangs, or was refused"


ORPHANING = """
import os, signal, sys, threading
from headwater.core.files import Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

class Stopping(Files):
    def sync_dir(self, path):
        if path.name == "0":
            reached.set()
            threading.Event().wait()
        super().sync_dir(path)

reached = threading.Event()
log = EmbeddedLog(sys.argv[1], files=Stopping())
threading.Thread(target=log.append, args=("t", 0, [Record(b"k", b"v")]), daemon=True).start()
assert reached.wait(120)
child = os.fork()
if child == 0:
    while True:
        signal.pause()
os.write(1, f"{child}\\n".encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_outlives_its_killed_parent_keeps_nobody_waiting(tmp_path: Path) -> None:
    """It was forked while another thread of the parent was opening a partition, under the locks of the topics and of the partition."""
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        parent = subprocess.Popen([sys.executable, "-c", ORPHANING, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        parent.wait(SOON)
        try:
            done = threading.Event()

            def go_on() -> None:
                log.append("t", 0, [Record(b"k", b"v")])
                log.create_topic("new")
                done.set()

            threading.Thread(target=go_on, daemon=True).start()
            assert done.wait(SOON), "it hangs, or was refused"
        finally:
            os.kill(orphan, signal.SIGKILL)
            parent.stdout.close()
