"""One checksum for many batches is the one that their own checksums lead to."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from google_crc32c import value as crc32c

from headwater.log.embedded.sums import GROUP, run_sums


def expected(sums: np.ndarray[tuple[int], np.dtype[np.uint32]], length: int) -> int | None:
    """As after many batches of this length."""
    while (found := run_sums(length).expected(sums)) is None:
        continue
    return found


def batches(random: Random, count: int, length: int) -> list[bytes]:
    bodies = [random.randbytes(length - 4) for _ in range(count)]
    return [body + crc32c(body).to_bytes(4, "big") for body in bodies]


def carried(pieces: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.array([int.from_bytes(piece[-4:], "big") for piece in pieces], np.uint32)


@pytest.mark.parametrize("seed", range(60))
def test_the_checksum_of_a_run_follows_from_those_of_its_batches(seed: int) -> None:
    random = Random(seed)
    count, length = GROUP * random.choice([1, 2, 15, 16, 17, 100]), random.choice([4, 5, 45, 53, 128, 1000, random.randint(4, 5000)])
    pieces = batches(random, count, length)
    assert expected(carried(pieces), length) == crc32c(b"".join(pieces))


@pytest.mark.parametrize("seed", range(30))
def test_no_flipped_bit_goes_unseen(seed: int) -> None:
    random = Random(seed)
    length = random.randint(45, 200)
    pieces = batches(random, GROUP * 3, length)
    for _ in range(100):
        raw = bytearray(b"".join(pieces))
        raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
        rotten = [bytes(raw[at : at + length]) for at in range(0, len(raw), length)]
        assert expected(carried(rotten), length) != crc32c(bytes(raw))
