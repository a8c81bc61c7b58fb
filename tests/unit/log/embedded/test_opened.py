"""Opening a partition alone: what is whole is found, what is torn is kept aside, page and sidecar are made true."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from headwater.core.errors import Damaged, HeadwaterError
from headwater.log.embedded import opened
from headwater.log.record import Record
from headwater.testing.faults import FailingFiles, crash


def tear(ground: Any, text: bytes) -> None:
    [path] = ground.segments()
    with path.open("ab") as file:
        file.write(text)


def test_two_tails_torn_at_the_same_byte_are_both_kept(ground: Any) -> None:
    ground.fill(3, segment=1 << 20).close()
    for text in (b"first half", b"other half"):
        tear(ground, text)
        ground.open().bounds("t", 0)
        log = ground.open()
        ground.partition(log)
        log.close()
    assert sorted(one.read_bytes() for one in ground.folder.glob("*.cut")) == [b"first half", b"other half"]


def test_the_page_and_the_sidecar_are_made_true(ground: Any) -> None:
    crash(ground.fill(3, segment=1 << 20))
    [path] = ground.segments()
    path.with_suffix(".pos").write_bytes(b"lies")
    log = ground.open(boot=b"o" * 16)  # the machine was started anew: the page is only a lower bound
    page = ground.partition(log).page
    assert (page.durable_offset, page.tail.offset, page.dirty, page.boot) == (3, 3, False, b"o" * 16)
    assert page.sound
    assert len(path.with_suffix(".pos").read_bytes()) >= 3 * 4
    assert ground.values(log) == [b"value-0", b"value-1", b"value-2"]


def test_damage_below_the_durable_end_changes_nothing(ground: Any) -> None:
    crash(ground.fill(3, segment=1 << 20))
    [path] = ground.segments()
    ground.flip(path, 60)
    before = path.read_bytes()
    log = ground.open()
    with pytest.raises(Damaged, match="damaged at byte"):
        log.append("t", 0, [Record(b"k", b"v")])
    assert path.read_bytes() == before
    assert not list(ground.folder.glob("*.cut"))


def test_files_that_no_manifest_names_are_swept_and_those_of_others_stay(ground: Any) -> None:
    ground.fill(3).close()
    left, others = ground.folder / f"{1:020d}-1.log", ground.folder / "notes.log"
    left.write_bytes(b"")
    others.write_bytes(b"theirs")
    (ground.folder / "manifest.tmp").write_bytes(b"half")
    log = ground.open()
    ground.partition(log)
    assert not left.exists()
    assert not (ground.folder / "manifest.tmp").exists()
    assert others.read_bytes() == b"theirs"


def test_who_joins_needs_a_manifest(ground: Any) -> None:
    ground.fill(1).close()
    assert opened.join(ground.folder, name="t 0").active.base == 0
    (ground.folder / "manifest").unlink()
    with pytest.raises(Damaged, match="is missing while t 0 is in use"):
        opened.join(ground.folder, name="t 0")


def test_a_recovery_that_fails_anywhere_can_be_done_again(ground: Any) -> None:
    ground.fill(3, segment=1 << 20).close()
    for step in range(1, 100):
        tear(ground, b"torn")
        files = FailingFiles(step)
        log = ground.open(files=files)
        with suppress(HeadwaterError):
            ground.partition(log)
        crash(log)
        again = ground.open()
        ground.partition(again)
        assert ground.values(again) == [b"value-0", b"value-1", b"value-2"]
        again.close()
        if not files.failed:
            return
    raise AssertionError("recovery never came to its end")
