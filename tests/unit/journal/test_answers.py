"""Answers of the operations on journals are described for OpenAPI."""

from __future__ import annotations

from headwater.journal.operations import JOURNAL
from headwater.server.openapi import document


def test_every_answer_has_a_schema() -> None:
    schemas = document(JOURNAL.operations, "1")["components"]["schemas"]
    assert {"ShownJournalEvent", "ShownFollowedEvent", "ShownHead", "TopicPage", "JournalTrail", "Appended"} <= set(schemas)
