"""A server's process: started in a session of its own, known by its id and the moment it began, so that a recycled id is never touched."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.core.errors import Unavailable

# Runs in a short-lived interpreter between us and the server. So the server is nobody's child, and whoever called `up` gets no zombie.
_LAUNCHER = """
import os, subprocess, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
os.write(1, b"%d" % server.pid)
os._exit(0)
"""


class Process(msgspec.Struct, frozen=True):
    """One process of this machine. `began` (clock ticks since boot) and `boot` tell it from a later one with the same id."""

    pid: int
    began: int
    boot: str

    def alive(self) -> bool:
        """Whether it still runs. A zombie does not; but one whose other threads are still ending has its files, locks and ports."""
        stat = _stat(self.pid)
        return stat is not None and (stat.state != "Z" or stat.threads > 1) and stat.began == self.began and boot_id() == self.boot

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process is gone."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        except OSError:  # a kernel or sandbox without it
            if self.alive():
                os.kill(self.pid, number)
            return
        try:
            # The handle names this one process for good: checked after it was opened, nothing else can get the signal.
            if self.alive():
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)

    def wait_gone(self, seconds: float) -> bool:
        """Wait until it has ended; False when it still runs after that time."""
        deadline = time.monotonic() + seconds
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            handle = -1
        ended = select.poll()  # not `select`, which knows no descriptor above 1023
        if handle >= 0:
            ended.register(handle, select.POLLIN)
        try:
            while self.alive():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                if handle >= 0:
                    ended.poll(min(left, 1.0) * 1000)  # readable once the process has ended
                else:
                    time.sleep(0.02)
            return True
        finally:
            if handle >= 0:
                os.close(handle)

    def session(self) -> list[Process]:
        """The other processes of its session: what it has started, such as Spark's executors and their Python workers."""
        members = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != self.pid and (stat := _stat(int(entry))) and stat.session == self.pid:
                members.append(Process(int(entry), stat.began, self.boot))
        return members

    def listens(self, port: int) -> bool:
        """Whether this very process listens on the TCP port: an answer on it may be somebody else's."""
        sockets = _listening(port)
        try:
            for name in os.listdir(f"/proc/{self.pid}/fd"):
                try:
                    if os.readlink(f"/proc/{self.pid}/fd/{name}") in sockets:
                        return True
                except OSError:
                    continue
        except OSError:
            return False
        return False


def spawn(command: Sequence[str], *, env: Mapping[str, str], folder: Path, log: Path) -> Process:
    """Start a program in its own session, its output appended to `log`. It outlives us."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(log), *command],
        env=dict(env),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode or not done.stdout.strip().isdigit():
        raise Unavailable(f"{command[0]} could not be started: {done.stderr.strip()}", hint="See `python -m tools.services status`.")
    pid = int(done.stdout)
    stat = _stat(pid)
    return Process(pid, stat.began if stat else -1, boot_id())  # -1: it is gone already, and `alive` will say so


def current() -> Process:
    """The process that asks."""
    stat = _stat(os.getpid())
    return Process(os.getpid(), stat.began if stat else -1, boot_id())


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class _Stat(NamedTuple):
    state: str
    """Of the first thread: a process can be a zombie by this letter while its other threads run."""
    threads: int
    """Those that have not ended, and the first one."""
    began: int
    session: int


def _stat(pid: int) -> _Stat | None:
    """What the system says of a process; None when there is none."""
    try:
        # The name in parentheses may hold anything, spaces and parentheses too: count from the last one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _Stat(state=fields[0], threads=int(fields[17]), began=int(fields[19]), session=int(fields[3]))


def _listening(port: int) -> set[str]:
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:  # 0A: listening
                sockets.add(f"socket:[{fields[9]}]")
    return sockets
