"""Checks watched partitions when the kernel reports a change of their files, and rarely otherwise.

The kernel tells of a write before the record is durable, and says nothing of the store that makes it durable. So a look that finds a
batch under way is followed by others, the first after half a millisecond, the later ones further apart.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.core.clock import Clock, SystemClock
from headwater.log.embedded.inotify import FolderEvents, Inotify

SWEEP = 0.5  # seconds between two sweeps over all partitions: the kernel's reports may be lost
SHORT = 0.0005  # seconds between two looks while a batch is under way
POLL = 0.005  # the longest pause between two looks at a batch under way, and at a folder of which the kernel tells nothing
_SLOW = 2.0  # seconds after which a batch under way is looked at less often: no disk takes so long, its writer has died
_QUIET = 0.002  # seconds without a change after which a folder is looked at no more
_SHARE = 32  # a pause is this part of the time since the last change, so that the delay stays small beside the sync
_UNWOKEN = 0.05  # seconds of rest at most where nothing can end it early
_WAITABLE = 0.002  # seconds: shorter pauses are slept, because `poll` counts milliseconds, and because a busy folder would end each at once


class Look(NamedTuple):
    """The result of one check of a partition."""

    moved: bool  # the end is another one than at the last look; whoever waits has been told
    pending: bool  # something is written and not yet durable


class Watched(Protocol):
    """A partition that is looked at. Looking raises nothing and is quick; several threads may look at once."""

    @property
    def folder(self) -> Path: ...

    def look(self, *, sweep: bool = False) -> Look:
        """Look at the end, and tell whoever waits if it has moved. `sweep`: nothing says that it has, so what costs much may be spared."""
        ...

    def look_closely(self) -> bool:
        """Make sure that the folder is still the same one. False when another one is in its place, which the kernel has to watch anew."""
        ...

    def retire(self) -> bool:
        """Whether nobody waits for the partition; once true, it stays true."""
        ...


class _Place:
    """One watched partition. `number` is the kernel's for its folder, None while the kernel tells nothing of it."""

    __slots__ = ("due", "lost", "number", "pending", "since", "trusted", "watched")

    def __init__(self, watched: Watched, now: float) -> None:
        self.watched = watched
        self.number: int | None = None
        self.lost = False  # the kernel has stopped watching it by itself: the folder was removed
        self.trusted = True  # false once the end has moved without a word of the kernel: of a network, others' writes are not told
        self.since = now  # when something last changed
        self.due = now
        self.pending = False


class FolderWatcher:
    """One thread and one descriptor for all watched partitions of a process; both exist only while there are any.

    Whoever waits no more says nothing here: a generator that is collected inside of any call must take no lock. A sweep finds out.
    Nothing is missed: the kernel is asked to watch before the first look. Where it does not (its limits are reached, the folder is not
    there), and where it turns out to tell nothing, a partition is looked at each few milliseconds.
    """

    def __init__(self, *, events: Callable[[], Inotify] = Inotify, clock: Clock | None = None, threaded: bool = True) -> None:
        self._open_events, self._clock, self._threaded = events, clock or SystemClock(), threaded
        self._mutex = threading.Lock()
        self._places: dict[Watched, _Place] = {}
        self._numbers: dict[int, set[_Place]] = {}
        self._quick: set[_Place] = set()
        self._sweep_at = 0.0
        self._events: Inotify | None = None
        self._wake = -1
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Look at it from now on. What changes before this returns is for the caller to see: by a look of its own, after this."""
        with self._mutex:
            now = self._clock.monotonic()
            if not self._places:
                self._sweep_at = now + SWEEP
            place = self._places[watched] = _Place(watched, now)
            if not self._hear(place):
                self._quick.add(place)
            if self._threaded and self._thread is None:
                self._wake = _wake_descriptor()
                self._thread = threading.Thread(target=self._run, name="headwater-log-watcher", daemon=True)
                self._thread.start()
            elif self._wake >= 0:
                os.eventfd_write(
                    self._wake, 1
                )  # it may rest until the next sweep, and not know of a folder that the kernel does not tell of

    def remove(self, watched: Watched) -> None:
        """Stop watching a partition."""
        with self._mutex:
            place = self._places.pop(watched, None)
            if place is not None:
                self._unhear(place)
                self._quick.discard(place)

    def forget(self) -> None:
        """In a forked child: let go of descriptors that are the parent's. Whatever was watched is not, here."""
        for fd in (self._events.fd if self._events is not None else -1, self._wake):
            if fd >= 0:
                os.close(fd)
        self._events, self._wake, self._places, self._quick = None, -1, {}, set()

    # -- one round ------------------------------------------------------------------------------------------

    def round(self) -> float | None:
        """Read the kernel's reports and check the partitions that are due; return the seconds until the next round, None when nothing is
        watched."""
        with self._mutex:
            if not self._places:
                self._end()
                return None
            now = self._clock.monotonic()
            self._note(now)
            sweep = now >= self._sweep_at
            if sweep:
                self._sweep_at = now + SWEEP
            due = list(self._places.values()) if sweep else [place for place in self._quick if place.due <= now]
        if sweep:
            due = [place for place in due if not self._retired(place)]
        self._look_closely([place for place in due if sweep or place.lost])
        unexplained = [place for place in due if self._look(place, now)]
        with self._mutex:
            if sweep and unexplained:
                self._distrust(unexplained, now)
            now = self._clock.monotonic()
            return max(0.0, min([self._sweep_at, *(place.due for place in self._quick)]) - now)

    def _note(self, now: float) -> None:
        """Schedule a check of every partition that the kernel has reported."""
        heard = self._events.read() if self._events is not None else FolderEvents(set(), set(), False)
        if heard.overflow:
            self._mark(self._places.values(), now)
        for number in heard.ended:
            for place in self._numbers.pop(number, ()):
                place.number, place.lost = None, True
                self._mark([place], now)
        for number in heard.changed:
            self._mark(self._numbers.get(number, ()), now)

    def _mark(self, places: Iterable[_Place], now: float) -> None:
        for place in places:
            place.since, place.due, place.trusted = now, now, True
            self._quick.add(place)

    def _look(self, place: _Place, now: float) -> bool:
        """Check one partition; return whether it has changed without a report of the kernel."""
        announced = place in self._quick or place.pending
        change = place.watched.look(sweep=not announced)
        if change.moved:
            place.since = now
        place.pending = change.pending
        pause = max(SHORT, (now - place.since) / _SHARE)
        notified = place.number is not None and place.trusted
        with self._mutex:
            if place.watched not in self._places or (notified and not change.pending and now - place.since >= _QUIET):
                self._quick.discard(place)
            elif place in self._quick or not notified or change.pending:
                place.due = now + min(pause, SWEEP if notified and now - place.since > _SLOW else POLL)
                self._quick.add(place)
        return change.moved and not announced

    def _retired(self, place: _Place) -> bool:
        if not place.watched.retire():
            return False
        self.remove(place.watched)
        return True

    def _look_closely(self, places: Iterable[_Place]) -> None:
        """Have the kernel watch what it does not: a folder made anew, or one that it had no room for."""
        for place in places:
            place.lost, same = False, place.watched.look_closely()
            with self._mutex:
                if place.watched in self._places and (not same or place.number is None):
                    self._unhear(place)
                    self._hear(place)

    def _distrust(self, places: Iterable[_Place], now: float) -> None:
        """Their end has moved, and nothing was heard before. A write comes before its record's end: so by now it must have been heard."""
        self._note(now)
        for place in places:
            if place not in self._quick:
                place.trusted, place.due = False, now
                self._quick.add(place)

    # -- the kernel -----------------------------------------------------------------------------------------

    def _hear(self, place: _Place) -> bool:
        try:
            if self._events is None:
                self._events = self._open_events()
            place.number = self._events.add(place.watched.folder)
        except OSError:
            return False
        self._numbers.setdefault(place.number, set()).add(place)
        return True

    def _unhear(self, place: _Place) -> None:
        number, place.number = place.number, None
        if number is None:
            return
        others = self._numbers.get(number, set())
        others.discard(place)
        if not others and self._events is not None:
            self._numbers.pop(number, None)
            self._events.remove(number)

    # -- the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (pause := self.round()) is not None:
            self._rest(pause)

    def _rest(self, seconds: float) -> None:
        if seconds < _WAITABLE:
            time.sleep(seconds)
            return
        if self._wake < 0:
            seconds = min(seconds, _UNWOKEN)
        ready = select.poll()
        for fd in (self._wake, self._events.fd if self._events is not None else -1):
            if fd >= 0:
                ready.register(fd, select.POLLIN)
        for fd, _ in ready.poll(seconds * 1000):
            if fd == self._wake:
                os.eventfd_read(fd)

    def _end(self) -> None:
        """Close the descriptors, when nobody waits. Under the mutex, by the thread that uses them."""
        if self._events is not None:
            self._events.close()
        if self._wake >= 0:
            os.close(self._wake)
        self._events, self._wake, self._thread, self._numbers, self._quick = None, -1, None, {}, set()


def _wake_descriptor() -> int:
    """What ends the thread's rest; -1 where no descriptor is free: then it rests for short times."""
    try:
        return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError:
        return -1


class _Shared:
    """The watcher of this process. One for all logs: the kernel gives each user few descriptors, and each thread costs its own wake-ups."""

    def __init__(self) -> None:
        self.watcher = FolderWatcher()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.watcher.forget()
        self.watcher = FolderWatcher()


_shared = _Shared()


def process_watcher() -> FolderWatcher:
    """The one watcher of this process; a forked child has another."""
    return _shared.watcher
