"""Supervises the workers of a server: starts them, restarts dead ones, kills those that hang, and ends them together.

A worker's event loop writes a byte to its parent every second: a worker that does not for `server.hang_timeout`, or before it is ready for
two minutes where that is longer, hangs, and would keep its partitions and queued connections for ever. Time in which the parent itself
stood still does not count: the workers may have, too.

The parent listens on the sockets and serves nothing. Workers inherit them by fork, so that a worker's death loses no queued connection. The
parent has no threads and no event loop, because it forks at any time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import uvloop

from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError, Unavailable
from headwater.core.ids import Ids
from headwater.core.settings import Settings
from headwater.server.auth import Tokens
from headwater.server.team import FOLDER, Team
from headwater.server.tls import Certificate
from headwater.server.worker import Worker
from headwater.wire.problems import error_of, problem_of

_STOPS = (signal.SIGINT, signal.SIGTERM)
_WATCHED = (*_STOPS, signal.SIGCHLD)
_READY = b"ready"
_BEAT = b"."
_BEATS = 1.0  # seconds between two signs of life
_STARTING = 120.0  # seconds for which a worker that is not ready may be silent: its loop may read settings and load libraries
_LATE = 5.0  # seconds by which the parent wakes later than it wanted: it stood still
_LIVED = 10.0  # seconds of life after which a dead worker is restarted at once
_PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds before a restart, by the number of early deaths
_KILLED = 5.0  # seconds beyond the grace after which a worker that does not end is killed


@dataclass
class _Child:
    slot: int
    since: float
    said: int  # the pipe on which it reports that it is ready, or its error; then its signs of life
    words: bytes = b""  # what it said but that it is ready and lives: the problem with which it ends
    ready: bool = False
    heard: float = 0.0  # when it was started, or last gave a sign of life
    silent: bool = False  # it has closed the pipe, and ends: waiting for more would return at once, again and again

    def hear(self, now: float) -> None:
        with suppress(BlockingIOError):
            while words := os.read(self.said, 1 << 16):
                self.heard = now
                self.words = (self.words + words).lstrip(_BEAT)
                if not self.ready and self.words.startswith(_READY):
                    self.ready, self.words = True, self.words.removeprefix(_READY).lstrip(_BEAT)
            self.silent = True


class Supervisor:
    """The workers of one server. `started` is called once when all of them are ready, `ending` when they have been told to stop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock,
        ids: Ids,
        tokens: Tokens | None,
        certificate: Certificate | None,
        sockets: Sequence[socket.socket],
        started: Callable[[], None],
        ending: Callable[[], None],
    ) -> None:
        self._settings, self._clock, self._ids = settings, clock, ids
        self._tokens, self._certificate, self._sockets = tokens, certificate, sockets
        self._started, self._ending = started, ending
        self._children: dict[int, _Child] = {}
        self._due: dict[int, float] = {}  # when to restart which slot
        self._young = [0] * settings.server.workers
        self._running = False
        self._kill_at: float | None = None  # set once it stops
        self._patience = settings.server.hang_timeout.seconds
        self._lives, self._dies = os.pipe()  # workers see its end when the parent is gone

    def run(self) -> bool:
        """Serve until a signal. False: a second signal came and ended everything at once. Errors: those of a failed first start."""
        folder = self._settings.data / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        reading, writing = socket.socketpair()
        for end in (reading, writing):
            end.setblocking(False)
        before = {number: signal.signal(number, _nothing) for number in _WATCHED}
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        try:
            for slot in range(self._settings.server.workers):
                self._start(slot)
            return self._watch(reading)
        finally:
            self._end_all(signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            reading.close()
            writing.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, signals: socket.socket) -> bool:
        stops = 0
        while self._children or self._kill_at is None:
            for number in self._wait(signals):
                stops += number in _STOPS
            if stops > 1:
                return False
            if stops and self._kill_at is None:
                self._kill_at = self._clock.monotonic() + self._settings.server.stop_grace.seconds + _KILLED
                self._end_all(signal.SIGTERM)
                self._ending()
            self._hear()
            self._kill_hanging()
            self._reap()
            self._start_again()
        return True

    def _wait(self, signals: socket.socket) -> bytes:
        """Wait for a signal, what a worker says, the next due restart, or until a worker hangs. Returns the numbers of the signals."""
        times, began = [*self._due.values()], self._clock.monotonic()
        if self._kill_at is not None:
            times.append(self._kill_at)
        elif self._patience:
            times += [child.heard + self._patience_with(child) for child in self._children.values()]
        timeout = max(0.0, min(times) - began) if times else None
        if timeout is not None:
            timeout = min(timeout, _BEATS)  # a standstill is seen by the time that a wait takes too long, so waits are short
        poll = select.poll()
        for fd in (signals.fileno(), *(child.said for child in self._children.values() if not child.silent)):
            poll.register(fd, select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000 + 1)
        now = self._clock.monotonic()
        if timeout is not None and now - began > timeout + _LATE:
            for child in self._children.values():
                child.heard = now
        with suppress(BlockingIOError):
            return signals.recv(1024)
        return b""

    # -- workers ----------------------------------------------------------------------------------------------

    def _start(self, slot: int) -> None:
        reading, says = os.pipe()
        os.set_blocking(reading, False)
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # a signal for the child must not reach the parent's socket
        pid = os.fork()
        if pid == 0:
            self._be_worker(slot, says)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        os.close(says)
        self._children[pid] = _Child(slot, now := self._clock.monotonic(), reading, heard=now)

    def _hear(self) -> None:
        now = self._clock.monotonic()
        for child in self._children.values():
            child.hear(now)
        if not self._running and self._kill_at is None and len(self._children) == len(self._young):
            self._running = all(child.ready for child in self._children.values())
            if self._running:
                self._started()

    def _kill_hanging(self) -> None:
        now = self._clock.monotonic()
        for pid, child in self._children.items() if self._patience and self._kill_at is None else ():
            patience = self._patience_with(child)
            if now < child.heard + patience:
                continue
            child.hear(now)  # what it has said since the last look
            if now >= child.heard + patience:
                logging.getLogger("headwater.server").error(
                    "worker %d (process %d) has given no sign of life for %g s; it is killed", child.slot, pid, patience
                )
                child.heard = now
                os.kill(pid, signal.SIGKILL)

    def _patience_with(self, child: _Child) -> float:
        return self._patience if child.ready else max(self._patience, _STARTING)

    def _reap(self) -> None:
        now = self._clock.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._end_all(signal.SIGKILL)
            return
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            child = self._children.pop(pid)
            child.hear(now)
            os.close(child.said)
            if self._kill_at is not None:
                continue
            code = os.waitstatus_to_exitcode(status)
            if not self._running:
                raise _problem(child.words, code)
            self._young[child.slot] = 0 if now - child.since > _LIVED else self._young[child.slot] + 1
            pause = _PAUSES[min(self._young[child.slot], len(_PAUSES) - 1)]
            logging.getLogger("headwater.server").error(
                "worker %d (process %d) ended with %d; it is started again in %g s %s", child.slot, pid, code, pause, child.words.decode()
            )
            self._due[child.slot] = now + pause

    def _start_again(self) -> None:
        now = self._clock.monotonic()
        for slot in [slot for slot, due in self._due.items() if due <= now and self._kill_at is None]:
            del self._due[slot]
            self._start(slot)
        if self._kill_at is not None:
            self._due.clear()

    def _end_all(self, number: signal.Signals) -> None:
        for pid in list(self._children):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            if number == signal.SIGKILL:
                os.waitpid(pid, 0)
                os.close(self._children.pop(pid).said)

    # -- in the worker ----------------------------------------------------------------------------------------

    def _be_worker(self, slot: int, says: int) -> None:
        """Serve, then end the process without the parent's cleanup."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _WATCHED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            os.close(self._dies)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve(slot, says))
            code = 0
        except HeadwaterError as error:
            os.write(says, msgspec.json.encode(problem_of(error, "")))
            code = error.exit_code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    async def _serve(self, slot: int, says: int) -> None:
        team = Team(self._settings.data, slot=slot, size=self._settings.server.workers)
        # Read changed files: a new worker must not accept a token that was removed since the parent read it.
        if self._tokens is not None:
            self._tokens.renew()
        if self._certificate is not None:
            self._certificate.renew()
        worker = Worker(self._settings, clock=self._clock, ids=self._ids, tokens=self._tokens, certificate=self._certificate, team=team)

        async def started() -> None:
            # Its parent does this when all are ready, which no worker would have: its lines would be without a format, those of the audit
            # lost. The library takes long to import, so a thread does it.
            await asyncio.to_thread(_log_messages, self._settings)
            os.write(says, _READY)

        def beat() -> None:
            with suppress(OSError):  # the parent stands still, or is gone: `_lives` tells
                os.write(says, _BEAT)
            loop.call_later(min(_BEATS, self._patience / 4), beat)

        async def ending() -> None:
            loop.remove_reader(self._lives)

        loop = asyncio.get_running_loop()
        os.set_blocking(says, False)
        if self._patience:
            beat()
        loop.add_reader(self._lives, worker.stop)  # the parent was killed: end this worker, too
        # Ctrl-C reaches every process of a terminal; ignore it here, because the parent passes the signal on.
        await worker.serve(self._sockets, started=started, ending=ending, signals=lambda number: number == signal.SIGTERM)


def _log_messages(settings: Settings) -> None:
    from headwater.core.logging import set_up

    set_up(settings.logging, stream=sys.stderr)


def _nothing(number: int, frame: object) -> None:
    """Does nothing: the wake-up socket reports the signal."""


def _problem(problem: bytes, code: int) -> HeadwaterError:
    if problem:
        return error_of(500, problem)
    return Unavailable(f"A worker ended while it started (exit {code}).", hint="Look at what it wrote to standard error.")
