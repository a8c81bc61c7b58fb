"""The end of a partition as its bytes tell it: what is torn is told from what is damaged."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest

from headwater.core.errors import Damaged
from headwater.log.embedded import manifest as manifests
from headwater.log.embedded.manifest import Manifest
from headwater.log.embedded.page import SegmentPosition
from headwater.log.embedded.recovery import sidecar, survey
from headwater.log.encoding import encode
from headwater.log.layout import seal
from headwater.log.record import Record
from headwater.testing.faults import crash


@pytest.fixture
def now(ground: Any) -> Manifest:
    """Of a partition with three batches, none of which the manifest knows to be durable."""
    ground.fill(3, segment=1 << 20).close()
    found = manifests.load(ground.folder)
    assert found is not None
    return msgspec.structs.replace(found, durable=SegmentPosition(0, 0, 0))


def test_all_whole_batches_are_found_and_a_torn_end_is_none(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"torn")
    found = survey(ground.folder, now, known=0, hint="")
    assert (found.place, found.damage, found.size) == (SegmentPosition(0, size, 3), None, size + 4)
    assert found.starts.tolist() == sidecar(path.with_suffix(".pos"), 0)[:3].tolist()


def test_bad_bytes_below_what_anybody_knows_to_be_durable_are_damage(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    last = int(sidecar(path.with_suffix(".pos"), 0)[2])
    ground.flip(path, last + 40)
    assert survey(ground.folder, now, known=2, hint="").damage is None  # the last batch: perhaps nobody acknowledged it
    found = survey(ground.folder, now, known=3, hint="next")
    assert found.damage is not None
    assert "records up to offset 2 were acknowledged" in found.damage.message
    assert found.damage.hint == "next"


def test_a_later_batch_tells_that_bad_bytes_before_it_were_durable(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    ground.flip(path, 40)
    found = survey(ground.folder, now, known=0, hint="")
    assert found.place == SegmentPosition(0, 0, 0)
    assert found.damage is not None  # by the durable end that the third batch carries


def test_a_sidecar_that_lies_changes_nothing(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    true = survey(ground.folder, now, known=0, hint="")
    path.with_suffix(".pos").write_bytes(np.array([0, 5, 9], "<u4").tobytes())
    assert survey(ground.folder, now, known=0, hint="").starts.tolist() == true.starts.tolist()
    path.with_suffix(".pos").unlink()
    assert survey(ground.folder, now, known=0, hint="").place == true.place
    assert len(sidecar(path.with_suffix(".pos"), 0)) == 0


def test_a_file_that_is_gone_or_shorter_than_the_manifest_says_is_damage(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    beyond = msgspec.structs.replace(now, durable=SegmentPosition(0, path.stat().st_size + 9, 4))
    with pytest.raises(Damaged, match="9 bytes short"):
        survey(ground.folder, beyond, known=0, hint="")
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        survey(ground.folder, now, known=0, hint="")


def test_a_batch_that_ends_with_zeros_is_whole_before_zeros_that_were_written_ahead(ground: Any, now: Manifest) -> None:
    [path] = ground.segments()
    log = ground.open()
    for n in itertools.count():
        batch = encode([Record(b"k", b"%d" % n, timestamp=n)], now=1)
        seal(batch, 3, 3)
        if batch.buffer[-1] == 0:  # the checksum comes last
            break
    log.append("t", 0, [Record(b"k", b"%d" % n, timestamp=n)])
    crash(log)
    assert path.read_bytes().rstrip(b"\0")[-8:] != bytes(8)
    found = survey(ground.folder, now, known=0, hint="")
    assert (found.place.offset, found.damage) == (4, None)
    assert found.written < found.place.position < found.size
