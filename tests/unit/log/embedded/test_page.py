"""The commit page: what one process stores another sees, a half-done store is never seen, and rot is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Damaged
from headwater.core.files import Files
from headwater.log.embedded.page import SIZE, CommitPage, SegmentPosition


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "commit"


def test_what_is_stored_is_seen_through_another_map(path: Path) -> None:
    page = CommitPage(Files(), path, writable=True)
    assert path.read_bytes() == bytes(SIZE)  # written, never sparse
    other = CommitPage(Files(), path, writable=False)
    page.tail, page.durable = SegmentPosition(3, 40, 5), SegmentPosition(3, 20, 4)
    page.epoch, page.generation, page.boot, page.dirty = 7, 9, b"b" * 16, True
    assert (other.tail, other.durable, other.durable_offset) == (page.tail, page.durable, 4)
    assert (other.epoch, other.generation, other.boot, other.dirty) == (7, 9, b"b" * 16, True)
    assert other.sound
    with pytest.raises(TypeError):
        other.epoch = 8  # a reader's map cannot be written


def test_a_store_that_dies_before_its_last_word_leaves_the_triple_of_before(path: Path) -> None:
    page = CommitPage(Files(), path, writable=True)
    page.tail = SegmentPosition(1, 2, 3)
    before = path.read_bytes()
    page.tail = SegmentPosition(4, 5, 6)
    after = path.read_bytes()
    changed = [at for at in range(0, SIZE, 8) if before[at : at + 8] != after[at : at + 8]]
    counter = changed[0]
    torn = bytearray(after)
    torn[counter : counter + 8] = before[counter : counter + 8]  # the new slot is filled, the counter has not moved
    path.write_bytes(torn)
    assert CommitPage(Files(), path, writable=False).tail == SegmentPosition(1, 2, 3)


def test_every_flipped_bit_of_a_triple_in_use_is_found(path: Path) -> None:
    page = CommitPage(Files(), path, writable=True)
    page.tail = page.durable = SegmentPosition(1, 2, 3)
    whole = path.read_bytes()
    used = [at for at in range(128, SIZE) if whole[at // 8 * 8 : at // 8 * 8 + 8] != bytes(8)]
    assert len(used) >= 2 * 5 * 8
    for at in used:
        rotten = bytearray(whole)
        rotten[at] ^= 16
        path.write_bytes(rotten)
        assert not CommitPage(Files(), path, writable=False).sound
    path.write_bytes(whole)
    assert CommitPage(Files(), path, writable=False).sound


def test_rot_is_an_error_to_whoever_reads_it(path: Path) -> None:
    CommitPage(Files(), path, writable=True).tail = SegmentPosition(1, 2, 3)
    rotten = bytearray(path.read_bytes())
    rotten[128] ^= 1
    path.write_bytes(rotten)
    with pytest.raises(Damaged, match="fails its checksum"):
        _ = CommitPage(Files(), path, writable=False).tail


def test_an_append_has_to_look_where_anything_is_not_as_it_was_left(path: Path) -> None:
    page = CommitPage(Files(), path, writable=True)
    page.generation, page.epoch = 3, 1
    assert page.quiet(3, 1)
    assert not page.quiet(2, 1)
    assert not page.quiet(3, 0)
    for name, value in (("dirty", True), ("deleted", True), ("failures", 1)):
        setattr(page, name, value)
        assert not page.quiet(3, 1)
        setattr(page, name, 0)
    page.failures = 2  # repaired
    assert page.quiet(3, 1)


def test_a_page_whose_name_means_another_file_says_so(path: Path) -> None:
    page = CommitPage(Files(), path, writable=True)
    assert page.named
    path.rename(path.with_name("kept"))
    assert not page.named
    CommitPage(Files(), path, writable=True)
    assert not page.named
