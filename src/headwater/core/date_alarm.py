"""Wakes an event loop at a date of the machine's clock. On Linux the kernel keeps the date: a loop that waits for a month sleeps a month.

A wait for a number of seconds would be wrong as soon as somebody sets the machine's date, or the machine sleeps. The kernel's timer of a
date is right in both cases, and it reports a date that was set. Where there is none, the alarm looks at the clock once a second.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from headwater.core.clock import Alarm, Clock, SystemClock

LONGEST_S = 1.0
"""The longest single wait where the kernel keeps no dates."""
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_ABSOLUTE, _CANCEL_ON_SET = 1, 2
_LAST_S = 1 << 40  # seconds: the kernel refuses dates much further away


class DateAlarm(Protocol):
    """Calls back when a date has come. It may do so earlier, and more often: whoever is called looks at the clock."""

    def set(self, when_ms: int) -> None:
        """Ring at this date, and at no earlier one that was set before. Soon, where it is past; never from inside this call."""
        ...

    def stop(self) -> None:
        """Ring no more until the next `set`."""
        ...

    def close(self) -> None:
        """Ring no more. Closing twice is no error."""
        ...


def date_alarm(clock: Clock, ring: Callable[[], None]) -> DateAlarm:
    """An alarm of the event loop that runs now."""
    if type(clock) is SystemClock and _LIBC is not None:
        with suppress(OSError, NotImplementedError):  # too many open files; a loop that watches none
            return _KernelAlarm(ring)
    return _SecondsAlarm(clock, ring)


class _SecondsAlarm(DateAlarm):
    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock, self._ring = clock, ring
        self._alarm: Alarm | None = None

    def set(self, when_ms: int) -> None:
        self.stop()
        wait = min(max(when_ms - self._clock.now_ms(), 0) / 1000, LONGEST_S)
        self._alarm = self._clock.call_later(wait, self._ring)

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    close = stop


class _TimerSpec(ctypes.Structure):
    """The kernel's `itimerspec`: the interval, which we do not use, and the date."""

    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "date_s", "date_ns")]


class _KernelAlarm(DateAlarm):
    """A file that becomes readable when its date comes, or when somebody sets the machine's date."""

    def __init__(self, ring: Callable[[], None]) -> None:
        assert _LIBC is not None
        self._ring, self._spec, self._loop = ring, _TimerSpec(), asyncio.get_running_loop()
        self._settime = _LIBC.timerfd_settime
        self._file = _LIBC.timerfd_create(time.CLOCK_REALTIME, _NONBLOCK | _CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "The kernel gives no timer.")
        try:
            self._loop.add_reader(self._file, self._readable)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise

    def set(self, when_ms: int) -> None:
        seconds, ms = divmod(max(when_ms, 1), 1000)
        self._arm(min(seconds, _LAST_S), ms * 1_000_000)

    def stop(self) -> None:
        if self._file >= 0:
            self._arm(0, 0)

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(file)
            os.close(file)

    def __del__(self) -> None:
        with suppress(Exception):  # at the end of the process
            self.close()

    def _arm(self, seconds: int, ns: int) -> None:
        self._spec.date_s, self._spec.date_ns = seconds, ns
        if self._settime(self._file, _ABSOLUTE | _CANCEL_ON_SET, ctypes.byref(self._spec), None):
            raise OSError(ctypes.get_errno(), "The kernel does not take a date.")

    def _readable(self) -> None:
        with suppress(OSError):  # ECANCELED: somebody has set the date
            os.read(self._file, 8)
        self._ring()


def _libc() -> ctypes.CDLL | None:
    """The C library, where it has timers of the kernel."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "timerfd_settime") else None


_LIBC = _libc()
