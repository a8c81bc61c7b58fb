from __future__ import annotations

import pytest

from headwater.core.errors import BadBounds, BadInput
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.snapshot_requests import DeleteSnapshots, FindSnapshots, SaveSnapshot, read_snapshot_body


def test_criteria_are_taken_from_the_request() -> None:
    found = FindSnapshots(topic="bank", id="a", max_seq_nr=5, min_timestamp=1)
    found.check()
    assert found.criteria() == SnapshotCriteria(max_seq_nr=5, min_timestamp=1)
    assert DeleteSnapshots(topic="bank", id="a", seq_nr=3).criteria() == SnapshotCriteria(min_seq_nr=3, max_seq_nr=3)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, BadInput),
        ({"seq_nr": 0}, BadInput),
        ({"seq_nr": 1, "max_seq_nr": 2}, BadInput),
        ({"min_seq_nr": 2, "max_seq_nr": 1}, BadBounds),
    ],
)
def test_deletions_say_which(given: dict[str, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        DeleteSnapshots(topic="bank", id="a", **given).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"payload": 1, "nr": 2}', b'{"payload": 1, "seq_nr": "x"}', b'{"payload": \xff}'])
def test_bodies_that_cannot_be_read_are_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_snapshot_body(body)


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(BadInput, match="no number of a snapshot"):
        SaveSnapshot(topic="bank", id="a", body=read_snapshot_body(b'{"payload": null, "seq_nr": 0}')).check()
