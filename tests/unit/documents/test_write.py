"""Answers of the writer."""

from __future__ import annotations

from headwater.documents.path import parse_path
from headwater.documents.write import ANY_STATE, Draft, WrittenDocument, transaction_id


def test_a_transaction_has_an_id_without_slashes() -> None:
    written = WrittenDocument(path=parse_path("a~/1"), revision=17, partition=3, offset=255)
    assert written.transaction == transaction_id(3, 255, 17) == "3-ff-11"


def test_a_draft_asks_for_no_state() -> None:
    draft = Draft(path=parse_path("a"), verb="put", body=b"1")
    assert draft.condition == ANY_STATE
    assert (draft.condition.match, draft.condition.none_match) == (None, None)
