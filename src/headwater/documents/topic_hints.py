"""The hint for a user who wants to change the topic of documents with an operation of the log."""

from __future__ import annotations

_INSTEAD = {
    "append": "Write documents with `headwater doc put PATH`.",
    "create_topic": "The first write of a document makes it: `headwater doc put PATH`.",
    "delete_before": "Records go by the setting documents.keep, once the store has them.",
    "compact": "Records go by the setting documents.keep, once the store has them.",
}


def instead(topic: str, operation: str) -> str:
    """What to do instead of an operation of the log."""
    return _INSTEAD.get(operation, "See `headwater doc --help`.")
