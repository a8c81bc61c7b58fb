"""Journals of a topic that grew, in Cassandra: those whose older records lie in another partition.

A row of `metajournal` has one head for an id, and rows of `journal` have one place for a number and a millisecond. So the partition with
the oldest place of a journal keeps it under the topic's name, as kafka-journal does, and each newer one under a name of its own, in the
same tables. It also keeps the whole `HeadFold` of such a journal (`headwater.journal.grown`), as a property of a row without a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headwater.core.errors import Damaged
from headwater.journal.cassandra_rows import changed
from headwater.journal.cassandra_view import HEAD_SEGMENTS, CassandraTables
from headwater.journal.change import JournalChange
from headwater.journal.head import EMPTY, HeadFold
from headwater.journal.store import head_segment

FOLD = "headwater.fold"
"""The property that holds a `MovedFold`."""


class MovedFold(msgspec.Struct, frozen=True):
    """What all copied records of a partition say of a journal; `before`: what they said at `pointer`, from which the last change was
    begun."""

    fold: HeadFold
    pointer: int = -1
    before: HeadFold = EMPTY

    def at(self, pointer: int) -> HeadFold:
        """The fold at a pointer. Errors: as of `StoredHead.at`."""
        if self.fold.offset <= pointer:
            return self.fold
        if self.pointer > pointer:
            raise changed()
        if self.pointer < pointer:
            raise Damaged(
                f"A fold of a journal was written at the pointer {self.pointer}, which is {pointer} now: two processes have copied the "
                "partition at once.",
                hint="Copy it anew: `headwater journal rebuild`.",
            )
        return self.before


def moved_topic(topic: str, partition: int) -> str:
    """The name under which the tables hold the journals that moved into a partition. No topic of Kafka can have it."""
    return f"headwater/moved/{partition}/{topic}"


class MovedFolds:
    """The folds of one partition. `topic`: the topic's name."""

    def __init__(self, tables: CassandraTables, topic: str, partition: int) -> None:
        self._tables, self._partition = tables, partition
        self._topic = f"headwater/fold/{partition}/{topic}"

    def at(self, id: str, pointer: int) -> HeadFold:
        """What was copied of a journal, up to a pointer."""
        return self._decoded(self._tables.rows("fold", *self._place(id))).at(pointer)

    def ids(self) -> list[str]:
        """The journals that have a fold, in no order."""
        return [id for _, id in self._rows()]

    def write(self, journals: Sequence[JournalChange], base: int, pointer: int) -> None:
        """Let the folds go on with a change that is begun from a pointer. Writing it twice is no error."""
        tables = self._tables
        answers = tables.requests.all(tables.bound("fold", *self._place(journal.id)) for journal in journals)
        stored = [self._decoded(rows).at(pointer) for rows in answers]
        tables.requests.write(
            self._write(journal.id, MovedFold(before.then(journal.fold), pointer, before), base + journal.fold.offset)
            for journal, before in zip(journals, stored, strict=True)
            if journal.fold.offset >= 0
        )

    def restore(self, folds: Sequence[tuple[str, HeadFold]], base: int) -> None:
        """Write folds of another copy."""
        self._tables.requests.write(self._write(id, MovedFold(fold), base + fold.offset) for id, fold in folds)

    def clear(self, time: int) -> None:
        """Remove all."""
        tables = self._tables
        tables.requests.write(tables.bound("delete_head", time, self._topic, segment, id) for segment, id in self._rows())

    def _write(self, id: str, moved: MovedFold, time: int) -> Any:
        return self._tables.bound("set_fold", *self._place(id), self._partition, {FOLD: msgspec.json.encode(moved).decode()}, time)

    def _place(self, id: str) -> tuple[str, int, str]:
        return self._topic, head_segment(id, HEAD_SEGMENTS), id

    def _rows(self) -> list[tuple[int, str]]:
        return [(segment, id) for segment, id, _ in self._tables.topic_ids(self._topic)]

    def _decoded(self, rows: Sequence[Sequence[Any]]) -> MovedFold:
        text = (rows[0][0] or {}).get(FOLD) if rows else None
        try:
            return msgspec.json.decode(text, type=MovedFold) if text else MovedFold(EMPTY)
        except msgspec.MsgspecError as error:
            raise Damaged(f"A fold of {self._topic} is damaged: {error}.", hint="Copy it anew: `headwater journal rebuild`.") from error
