"""Finding whole batches in bytes: torn, rotten, and with a sidecar that lies."""

from __future__ import annotations

import mmap
from pathlib import Path
from random import Random

import numpy as np
import pytest

from headwater.log.embedded.batches import check, later_end, next_batch, prove, walk
from headwater.log.encoding import encode
from headwater.log.layout import seal
from headwater.log.record import Record


def written(path: Path, *sizes: int, durable: int = 0) -> bytes:
    out, offset = b"", 0
    for size in sizes:
        batch = encode([Record(b"k", b"v%d" % i) for i in range(size)], now=1)
        seal(batch, offset, durable or offset)
        out += batch.buffer
        offset += size
    path.write_bytes(out)
    return out


def mapped(path: Path) -> tuple[mmap.mmap, int]:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), size


def intact_up_to(path: Path) -> tuple[int, int, int]:
    data, size = mapped(path)
    starts, end = walk(data, 0, size, 0)
    found = check(data, size, np.array(starts, np.int64), end, 0)
    return found.position, found.offset, found.durable


def test_every_torn_tail_ends_at_a_batch(tmp_path: Path) -> None:
    whole = written(tmp_path / "s", 1, 3, 2)
    ends = [0, len(written(tmp_path / "a", 1)), len(written(tmp_path / "b", 1, 3)), len(whole)]
    for cut in range(1, len(whole)):
        (tmp_path / "torn").write_bytes(whole[:cut])
        position, offset, _ = intact_up_to(tmp_path / "torn")
        assert position == max(end for end in ends if end <= cut)
        assert offset == [0, 1, 4, 6][ends.index(position)]


def test_every_flipped_bit_is_seen(tmp_path: Path) -> None:
    whole = written(tmp_path / "s", 1, 3, 2)
    ends = [0, len(written(tmp_path / "a", 1)), len(written(tmp_path / "b", 1, 3)), len(whole)]
    for at in range(len(whole)):
        for bit in (1, 128):
            rotten = bytearray(whole)
            rotten[at] ^= bit
            (tmp_path / "rotten").write_bytes(rotten)
            position, _, _ = intact_up_to(tmp_path / "rotten")
            assert position == max(end for end in ends if end <= at), f"byte {at}"


def test_a_sidecar_is_believed_only_as_far_as_it_proves_itself(tmp_path: Path) -> None:
    written(tmp_path / "s", 5, 5)
    data, size = mapped(tmp_path / "s")
    truth, end = walk(data, 0, size, 0)
    rows = np.array(truth, "<u4")
    assert prove(data, rows, 0, size, 0)[0].tolist() == truth
    assert prove(data, rows, 0, size, 0)[1] == end == size
    for lie in (np.zeros(10, "<u4"), np.full(10, 2**32 - 1, "<u4"), rows + 1, np.empty(0, "<u4")):
        found, _ = prove(data, lie, 0, size, 0)
        assert found.tolist() == truth[: len(found)]
    half = rows.copy()
    half[4] += 1
    assert prove(data, half, 0, size, 0)[0].tolist() == truth[:4] or prove(data, half, 0, size, 0)[0].tolist() == truth[:3]
    assert prove(data, rows, 0, size, 1)[0].tolist() == []


def test_an_intact_batch_behind_damage_tells_its_durable_end(tmp_path: Path) -> None:
    whole = written(tmp_path / "s", 1, 1, 1, durable=2)
    size = len(whole) // 3
    rotten = bytearray(whole)
    rotten[size + 30] ^= 1
    (tmp_path / "rotten").write_bytes(rotten)
    data, length = mapped(tmp_path / "rotten")
    assert later_end(data, size, length, 1) == 2
    assert next_batch(data, size + 1, length, 1) == 2 * size
    assert later_end(data, 2 * size + 1, length, 3) == 0
    assert next_batch(data, 2 * size + 1, length, 3) == -1


@pytest.mark.parametrize("garbage", [b"\xff" * 400, b"\0" * 400, b"\x80" * 400], ids=["ones", "zeros", "bit seven"])
def test_garbage_is_no_batch(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "g").write_bytes(garbage)
    data, size = mapped(tmp_path / "g")
    assert intact_up_to(tmp_path / "g")[0] == 0
    assert later_end(data, 0, size, 0) == 0
    assert next_batch(data, 0, size, 0) == -1


def test_a_few_torn_bytes_with_a_sidecar_row_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "torn").write_bytes(b"abc")
    data, size = mapped(tmp_path / "torn")
    found, end = prove(data, np.zeros(1, "<u4"), 0, size, 0)
    assert (found.tolist(), end) == ([], 0)


@pytest.mark.parametrize("lengths", [(2,), (2, 3), (2, 2, 2, 2, 60)], ids=["one", "two", "a few"])
def test_a_flipped_bit_is_seen_among_many_batches_of_one_length(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    """From some thousands on their checksums are compared many at once."""
    random, out, ends = Random(1), bytearray(), [0]
    for n in range(12_000):
        batch = encode([Record(b"k%05d" % n, b"v" * lengths[n // 3000 % len(lengths)])], now=n)
        seal(batch, n, n)
        out += batch.buffer
        ends.append(len(out))
    for _ in range(3):
        (tmp_path / "s").write_bytes(out)
        assert intact_up_to(tmp_path / "s") == (len(out), 12_000, 11_999)
    for _ in range(25):
        at = random.randrange(len(out))
        rotten = bytearray(out)
        rotten[at] ^= 1 << random.randrange(8)
        (tmp_path / "s").write_bytes(rotten)
        assert intact_up_to(tmp_path / "s")[0] == max(end for end in ends if end <= at)
