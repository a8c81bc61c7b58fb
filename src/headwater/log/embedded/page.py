"""The commit page: 4 KiB of shared memory through which the processes that use one partition agree.

It is valid while a process has the partition open, and invalid after another boot. Words are native, aligned and 8 bytes wide, so that
a store is never seen half done (`struct` packs byte by byte: torn values were seen in 1 of 100 reads). Tail and durable end are triples in
two slots with a counter: the idle slot is written, then the counter moves on, so that a kill in between leaves the old triple whole.
Each triple carries a checksum: processes detect a damaged page, and the next one to open the partition alone writes a new one.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

from headwater.core.errors import Damaged
from headwater.core.files import Files, write_all

SIZE = 4096
_BOOT, _DIRTY, _FAILURES, _GENERATION, _EPOCH, _DURABLE, _TICK, _DELETED = 0, 2, 3, 4, 5, 6, 7, 8
_TAIL_COUNTER, _TAIL_SLOTS = 16, 17
_END_COUNTER, _END_SLOTS = 32, 33
_SLOT = 4  # words: a triple and its checksum
_TRIES = 1000  # a reader that is overtaken by a writer reads again; a wrong checksum that stays is rot
_MASK = (1 << 64) - 1
_LOW = (1 << 32) - 1
_NOT_ZERO = 0x2545F4914F6CDD1D


class SegmentPosition(NamedTuple):
    """A position in a partition: in the segment that begins at offset `base`, at byte `position`, where `offset` comes next."""

    base: int
    position: int
    offset: int


_Seen = tuple[int, SegmentPosition]  # a counter's word, and the triple that it points at


def _checksum(now: int, base: int, position: int, offset: int) -> int:
    """A change of one word always changes it, a page of zeros is never right, and a slot that is older than its counter is not taken."""
    mixed = now << 32 ^ base ^ position << 20 ^ offset << 1 ^ _NOT_ZERO
    return (mixed ^ mixed >> 64) & _MASK


class CommitPage:
    """The mapped page. Whoever changes it holds the partition's lock; readers need none.

    A counter moves with every store, so a triple that was seen under the same counter is the same: it is not read again.
    """

    def __init__(self, files: Files, path: Path, *, writable: bool) -> None:
        self._path = path
        self._tail_seen: _Seen = (-1, SegmentPosition(0, 0, 0))  # no word is ever -1
        self._end_seen: _Seen = (-1, SegmentPosition(0, 0, 0))
        fd = files.open(path, os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY)
        try:
            if writable and os.fstat(fd).st_size != SIZE:
                write_all(files, fd, [bytes(SIZE)], 0)  # never sparse: on a full disk a store into a hole would kill the process
                files.truncate(fd, SIZE)
            self._inode = os.fstat(fd).st_ino
            protection = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
            self._words = memoryview(mmap.mmap(fd, SIZE, mmap.MAP_SHARED, protection)).cast("Q")
        finally:
            files.close(fd)

    @property
    def named(self) -> bool:
        """Does the page's path still mean this page? Not so once its topic was deleted, or deleted and made again."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def quiet(self, generation: int, epoch: int) -> bool:
        """Is there nothing that an append has to look at: no change half done, failed or made by others, no claim, no deletion?"""
        words = self._words
        return (
            words[_GENERATION] == generation and words[_EPOCH] == epoch and not (words[_DIRTY] or words[_DELETED] or words[_FAILURES] & 1)
        )

    # -- single words ---------------------------------------------------------------------------------------

    @property
    def boot(self) -> bytes:
        return self._words[_BOOT : _BOOT + 2].tobytes()

    @boot.setter
    def boot(self, value: bytes) -> None:
        self._words[_BOOT : _BOOT + 2] = memoryview(value).cast("Q")

    @property
    def dirty(self) -> bool:
        """A writer was between its first byte and moving the tail, or replacing the manifest. A process that finds it set finishes that
        change first."""
        return self._words[_DIRTY] != 0

    @dirty.setter
    def dirty(self, value: bool) -> None:
        self._words[_DIRTY] = int(value)

    @property
    def failures(self) -> int:
        """Grows by two with every failed sync; odd until repaired. A writer asleep during the repair would miss a plain flag."""
        return self._words[_FAILURES]

    @failures.setter
    def failures(self, value: int) -> None:
        self._words[_FAILURES] = value

    @property
    def generation(self) -> int:
        """The manifest's generation: whoever has an older one reads it again."""
        return self._words[_GENERATION]

    @generation.setter
    def generation(self, value: int) -> None:
        self._words[_GENERATION] = value

    @property
    def epoch(self) -> int:
        """The newest claim; 0 while nobody has claimed the partition."""
        return self._words[_EPOCH]

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._words[_EPOCH] = value

    @property
    def durable_offset(self) -> int:
        """Readers read below this offset. Stored last of all."""
        return self._words[_DURABLE]

    @property
    def tick(self) -> int:
        """When the manifest was last replaced, in monotonic nanoseconds."""
        return self._words[_TICK]

    @tick.setter
    def tick(self, value: int) -> None:
        self._words[_TICK] = value

    @property
    def deleted(self) -> bool:
        """The topic is being deleted, or is gone and the files are kept alive only by open descriptors."""
        return self._words[_DELETED] != 0

    @deleted.setter
    def deleted(self, value: bool) -> None:
        self._words[_DELETED] = int(value)

    # -- triples --------------------------------------------------------------------------------------------

    @property
    def tail(self) -> SegmentPosition:
        """Where the next batch goes. Errors: `Damaged` for a page that has rotted."""
        word, place = self._tail_seen
        return place if self._words[_TAIL_COUNTER] == word else self._read_tail()

    @tail.setter
    def tail(self, place: SegmentPosition) -> None:
        self._tail_seen = self._store(_TAIL_COUNTER, _TAIL_SLOTS, place)

    @property
    def durable(self) -> SegmentPosition:
        """Up to where everything is synced. Errors: `Damaged` for a page that has rotted."""
        word, place = self._end_seen
        return place if self._words[_END_COUNTER] == word else self._read_end()

    @durable.setter
    def durable(self, place: SegmentPosition) -> None:
        self._end_seen = self._store(_END_COUNTER, _END_SLOTS, place)
        self._words[_DURABLE] = place.offset

    def _read_tail(self) -> SegmentPosition:
        self._tail_seen = self._triple(_TAIL_COUNTER, _TAIL_SLOTS)
        return self._tail_seen[1]

    def _read_end(self) -> SegmentPosition:
        self._end_seen = self._triple(_END_COUNTER, _END_SLOTS)
        return self._end_seen[1]

    @property
    def sound(self) -> bool:
        """Do the triples have the checksums that they carry, and do the two durable ends agree?"""
        try:
            return self._read_tail().offset >= self._read_end().offset == self.durable_offset
        except Damaged:
            return False

    def _triple(self, counter: int, slots: int) -> _Seen:
        words = self._words
        for _ in range(_TRIES):
            word = words[counter]
            now = word >> 32
            if now ^ _LOW != word & _LOW:
                continue  # one flipped bit would point at the slot of the triple before
            at = slots + _SLOT * (now & 1)
            base, position, offset = words[at], words[at + 1], words[at + 2]
            if words[at + 3] == _checksum(now, base, position, offset):  # otherwise a writer may have been writing the slot that was read
                return word, SegmentPosition(base, position, offset)
        raise Damaged(
            f"{self._path} fails its checksum.",
            hint="Close every process that uses the partition, `headwater serve` among them: the next to open it makes the page anew.",
        )

    def _store(self, counter: int, slots: int, place: SegmentPosition) -> _Seen:
        words = self._words
        base, position, offset = place
        now = (words[counter] >> 32) + 1 & _LOW
        at = slots + _SLOT * (now & 1)
        words[at], words[at + 1], words[at + 2] = base, position, offset
        words[at + 3] = _checksum(now, base, position, offset)
        words[counter] = word = now << 32 | now ^ _LOW
        return word, place
