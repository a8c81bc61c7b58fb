"""The manifest: whole or an error, of its own partition, and not older than the segments."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google_crc32c import value as crc32c

from headwater.core.errors import Damaged, NewerFormat
from headwater.core.files import Files
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.manifest import Manifest, Segment
from headwater.log.embedded.page import SegmentPosition
from headwater.log.layout import U32

NOW = Manifest(4, 2, [Segment(0, length=90, end=3), Segment(3, 2, created=7)], SegmentPosition(3, 0, 3), epoch=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "t" / "0"
    made.mkdir(parents=True)
    return made


def test_it_comes_back_as_it_was_saved_and_names_its_partition(folder: Path) -> None:
    assert manifests.load(folder) is None
    manifests.save(Files(), folder, NOW)
    assert manifests.load(folder) == msgspec.structs.replace(NOW, partition="t 0")
    assert NOW.active.stem == f"{3:020d}-2"
    assert NOW.segments[0].closed
    assert not NOW.active.closed


def test_every_flipped_byte_is_found(folder: Path) -> None:
    manifests.save(Files(), folder, NOW)
    path = folder / manifests.NAME
    whole = path.read_bytes()
    for at in range(len(whole)):
        rotten = bytearray(whole)
        rotten[at] ^= 4
        path.write_bytes(rotten)
        with pytest.raises(Damaged, match="fails its checksum"):
            manifests.load(folder)
    path.write_bytes(whole[:5])
    with pytest.raises(Damaged):
        manifests.load(folder)


def test_one_of_another_partition_or_of_a_newer_headwater_is_refused(folder: Path) -> None:
    manifests.save(Files(), folder, NOW)
    other = folder.parent / "1"
    shutil.copytree(folder, other)
    with pytest.raises(Damaged, match="belongs to t 0"):
        manifests.load(other)
    body = msgspec.json.encode(msgspec.structs.replace(NOW, format=2))
    (folder / manifests.NAME).write_bytes(U32.pack(crc32c(body)) + body)
    with pytest.raises(NewerFormat, match="has format 2"):
        manifests.load(folder)


def test_a_partition_without_one_is_empty_only_where_nothing_tells_of_records(folder: Path, ground: Any) -> None:
    assert manifests.load_for_reading(folder) is None
    (folder / f"{0:020d}.log").write_bytes(bytes(100))  # zeros ahead of a first record
    assert manifests.load_for_reading(folder) is None
    (folder / f"{0:020d}.log").write_bytes(b"\0\1record")
    with pytest.raises(Damaged, match="holds records"):
        manifests.load_for_reading(folder)
    ground.fill(2).close()
    (ground.folder / "manifest").unlink()
    for path in ground.segments():
        path.unlink()
    with pytest.raises(Damaged, match="the commit page tells of records up to offset 1"):
        manifests.load_for_reading(ground.folder)


def test_a_segment_made_after_it_shows_that_it_is_old(folder: Path) -> None:
    manifests.check_newest(folder, NOW)
    for stem, old in ((f"{3:020d}", False), (f"{1:020d}-4", False), (f"{9:020d}", True), (f"{1:020d}-5", True)):
        path = folder / f"{stem}.log"
        path.write_bytes(b"record")
        found = manifests.outdated(folder, NOW)
        assert found == (path if old else None)
        path.unlink()
    (folder / f"{9:020d}.log").write_bytes(bytes(64))  # made, and not written to
    manifests.check_newest(folder, NOW)


def test_only_names_of_segments_are_parsed() -> None:
    assert manifests.parsed(f"{17:020d}") == (17, 0)
    assert manifests.parsed(f"{17:020d}-3") == (17, 3)
    assert [manifests.parsed(name) for name in ("17", f"{17:020d}-", f"{17:020d}.5", "x" * 20)] == [None] * 4


def test_a_folder_that_is_gone_is_damage_only_where_its_topic_is_there(folder: Path) -> None:
    folder.rmdir()
    manifests.check_folder(folder)
    (folder.parent / "topic.json").write_text("{}")
    with pytest.raises(Damaged, match="is missing, and with it every record"):
        manifests.check_folder(folder)


def test_the_segments_behind_an_offset_begin_with_the_one_that_may_hold_it() -> None:
    manifest = Manifest(0, 0, [Segment(base) for base in (0, 10, 20)], SegmentPosition(20, 0, 20))
    for offset, bases in ((0, [0, 10, 20]), (9, [0, 10, 20]), (10, [10, 20]), (25, [20])):
        assert [segment.base for segment in manifest.segments_from(offset)] == bases
