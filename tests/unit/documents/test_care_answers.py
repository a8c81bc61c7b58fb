"""What operators are told of documents."""

from __future__ import annotations

from headwater.documents.care_answers import DocumentTrail
from headwater.documents.path import logical_partition
from headwater.wire import json


def test_a_trail_of_what_has_never_been_is_empty() -> None:
    trail = DocumentTrail(path="abc/123", logical_partition=logical_partition("abc/123"))
    assert json.decoder(DocumentTrail)(json.encode(trail)) == trail
    assert (trail.logical_partition, trail.revision, trail.transactions) == (587, 0, [])
