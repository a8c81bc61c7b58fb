"""The error for records of a journal's topic that cannot be decoded."""

from __future__ import annotations

from headwater.core.errors import UnreadableRecord

HINT = "List the records that stop a partition with `headwater journal dead TOPIC list`."


def unreadable(message: str, *, offset: int = -1) -> UnreadableRecord:
    """The error. `offset`: of the record, -1 where the caller adds it."""
    return UnreadableRecord(message, hint=HINT, offset=offset)


def at_offset(error: UnreadableRecord, offset: int) -> UnreadableRecord:
    """The same error for the record at `offset`."""
    return UnreadableRecord(f"The record at offset {offset} cannot be read: {error.message}", hint=error.hint, offset=offset)
