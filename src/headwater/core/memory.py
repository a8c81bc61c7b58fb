"""Settings of the allocator and the garbage collector for moving many documents."""

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
    """Make glibc keep up to 64 MiB of freed memory; return whether it could.

    By default glibc returns large blocks to the system at once, and gets them back page by page, filled with zeros. Batches of documents
    are such blocks: this took a third of the time of moving documents.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MAPPED, _LARGEST)) and bool(mallopt(_TRIM, KEPT))


def give_back_freed() -> bool:
    """Make glibc give memory back to the system that is free between what is used; return whether it could.

    By default it gives back what lies at the end alone: after much was read and little of it kept, nearly as much stays as was read.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return False
    trim(0)
    return True


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn Python's cycle collector off inside: documents have no cycles, and it would scan every one of them again and again. Also keeps
    freed memory."""
    keep_freed()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
