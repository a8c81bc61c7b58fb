"""What crc32c over many batches in one pass must be, computed from the checksums that they carry.

crc32c is linear: `n` more bytes change a checksum by a fixed matrix of 32 × 32 bits, and add their own checksum. So the checksum of
batches of one length that stand one behind the other follows from theirs, without another look at the bytes. A matrix is kept as four
tables of 256 numbers, one per byte of the checksum, so that numpy applies many of them to many checksums at once.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from google_crc32c import value as crc32c

Numbers = np.ndarray[Any, np.dtype[Any]]
GROUP = 16  # checksums that one step makes one of
_POLYNOMIAL = 0x82F63B78
_BITS: Numbers = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
_PLACES = np.arange(0, GROUP * 4 * 256, 256)  # where the table of each byte of a group begins
_WORTH = 8192  # batches of one length, after which making its tables has cost less than they save


@lru_cache(maxsize=64)
def run_sums(length: int) -> RunSums:
    """Those of batches of `length` bytes. The tables of the lengths that were asked for last are kept: a log has few."""
    return RunSums(length)


class RunSums:
    """The checksums of runs of batches that have `length` bytes each. Safe for several threads: its tables are always the same."""

    def __init__(self, length: int) -> None:
        self._length, self._seen = length, 0
        self._steps: dict[int, Numbers] = {}

    def expected(self, sums: Numbers) -> int | None:
        """crc32c over batches one behind the other, where each has the checksum in `sums`, and ends with it. A multiple of `GROUP`.

        None as long as too few batches of this length have been seen for the tables to be worth their making.
        """
        if self._seen < _WORTH:
            self._seen += len(sums)
            return None
        tables, constant = self._first
        values, length = _grouped(tables, sums) ^ constant, self._length * GROUP
        while len(values) > 1:
            values = _grouped(self._step(length), np.concatenate((np.zeros(-len(values) % GROUP, np.uint32), values)))  # 0: of no bytes
            length *= GROUP
        return int(values[0])

    @cached_property
    def _first(self) -> tuple[Numbers, np.uint32]:
        """The first step also adds what a batch's last four bytes do, its checksum: linear in it but for a constant."""
        nothing = crc32c(bytes(4))
        own = np.array([crc32c(int(bit).to_bytes(4, "big")) ^ nothing for bit in _BITS], np.uint32) ^ _apply(_behind(4), _BITS)
        powers = _tables(_powers(self._length))
        constant = np.bitwise_xor.reduce(_apply(powers, np.array([nothing], np.uint32)).ravel())
        return _tables(_apply(powers, own)), constant

    def _step(self, length: int) -> Numbers:
        if length not in self._steps:
            self._steps[length] = _tables(_powers(length))
        return self._steps[length]


def _grouped(tables: Numbers, values: Numbers) -> Numbers:
    """Multiply `GROUP` values at a time by their matrices, and add the products."""
    parts = np.ascontiguousarray(values, "<u4").view(np.uint8).reshape(-1, GROUP * 4)
    products: Numbers = np.bitwise_xor.reduce(tables.reshape(-1).take(parts + _PLACES), axis=1)
    return products


def _apply(tables: Numbers, values: Numbers) -> Numbers:
    """A matrix, or each of several, times every one of `values`."""
    parts = np.ascontiguousarray(values, "<u4").view(np.uint8).reshape(-1, 4)
    products: Numbers = np.bitwise_xor.reduce([tables[..., number, :][..., parts[:, number]] for number in range(4)])
    return products


def _tables(images: Numbers) -> Numbers:
    """The tables of the matrix, or of each of several, that takes each bit to its image."""
    by_byte = images.reshape(*images.shape[:-1], 4, 8)
    tables = np.zeros((*images.shape[:-1], 4, 256), np.uint32)
    for bit in range(8):
        tables[..., 1 << bit : 2 << bit] = tables[..., : 1 << bit] ^ by_byte[..., bit, None]
    return tables


def _powers(length: int) -> Numbers:
    """What the batches behind it do to the checksum of each in a group: those of its last one, which has none behind it, come last."""
    step, powers = _behind(length), [_BITS]
    while len(powers) < GROUP:
        powers.append(_apply(step, powers[-1]))
    return np.stack(powers[::-1])


def _behind(count: int) -> Numbers:
    """What `count` bytes behind it do to a checksum, as tables."""
    if count == 1:
        images = _BITS
        for _ in range(8):
            images = np.where(images & 1, images >> 1 ^ np.uint32(_POLYNOMIAL), images >> 1).astype(np.uint32)
        return _tables(images)
    half = _behind(count // 2)
    images = _apply(half, _apply(half, _BITS))
    return _tables(_apply(_behind(1), images) if count % 2 else images)
