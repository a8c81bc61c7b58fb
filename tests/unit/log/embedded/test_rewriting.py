"""A finished segment, written in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.descriptors import open_below

from headwater.core.files import Files
from headwater.log.embedded import batches
from headwater.log.embedded.manifest import Segment
from headwater.log.embedded.rewriting import SegmentWriter
from headwater.log.encoding import encode
from headwater.log.layout import seal
from headwater.log.record import Record
from headwater.testing.faults import FailingFiles


def test_its_batches_and_its_sidecar_are_whole(ground: Any, tmp_path: Path) -> None:
    writer = SegmentWriter(Files(), tmp_path, Segment(5, 3, created=9, dense=False))
    for first in (5, 7):
        batch = encode([Record(b"k", b"v-%d" % n) for n in range(first, first + 2)], now=1)
        seal(batch, first, 0)
        writer.add(batch, 9)
    made = writer.finish(9)
    assert (made.base, made.end, made.created, made.dense) == (5, 9, 9, False)
    assert made.length == made.log(tmp_path).stat().st_size == writer.length
    data, size = ground.mapped(made.log(tmp_path))
    starts = np.fromfile(made.pos(tmp_path), "<u4").astype(np.int64)
    found = batches.check(data, size, starts, size, 5)
    assert (found.records, found.offset, found.durable) == (4, 9, 9)


def test_one_that_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    SegmentWriter(Files(), tmp_path, Segment(0)).abandon()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_sync_is_told_and_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = open_below(tmp_path)
    writer = SegmentWriter(FailingFiles(1, only=("sync",)), tmp_path, Segment(0))
    writer.copy(b"bytes", np.zeros(1, np.int64))
    with pytest.raises(OSError, match="Input/output"):
        writer.finish(1)
    assert open_below(tmp_path) == before
