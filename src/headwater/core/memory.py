"""What a process does with memory that it no longer needs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_TRIM, _MAPPED = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
KEPT = 64 << 20  # bytes of free memory that a process keeps for itself
_LARGEST = 32 << 20  # glibc takes no more


@cache
def keep_freed() -> bool:
    """Keep freed memory for what is needed next, up to 64 MiB, where the C library can be told so; whether it could.

    Batches of documents come and go by megabytes. glibc gives every block of some size back to the system at once, and the system gives
    it again page by page, filled with zeros: a third of the time of moving documents.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MAPPED, _LARGEST)) and bool(mallopt(_TRIM, KEPT))


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles, of which documents have none: it would look at every one of them again and again. And with
    the memory of the batch before."""
    keep_freed()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
