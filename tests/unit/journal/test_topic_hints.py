"""Hints for users who would change a topic of journals by the log's own commands."""

from __future__ import annotations

from headwater.journal.topic_hints import instead


def test_each_operation_of_the_log_has_its_hint() -> None:
    assert "journal append journal-bank" in instead("journal-bank", "append")
    assert "journal.keep" in instead("journal-bank", "delete_before")
    assert instead("snapshot-journal-bank", "append") == instead("journal-bank", "other")
