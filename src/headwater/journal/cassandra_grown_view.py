"""The copy of a partition in Cassandra into which journals have moved, because its topic grew, as a reader sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.journal.cassandra_moved import MovedFolds, moved_topic
from headwater.journal.cassandra_view import CassandraPartitionView, CassandraTables
from headwater.journal.change import EventRow, Pointer
from headwater.journal.head import Head, HeadFold


class CassandraGrownView(CassandraPartitionView):
    """As `CassandraPartitionView`, with the journals that lie under the name for those that moved here."""

    def __init__(self, tables: CassandraTables, topic: str, partition: int, pointer: Pointer, *, clearing: bool) -> None:
        super().__init__(tables, topic, partition, pointer, clearing=clearing)
        self._newer = CassandraPartitionView(tables, moved_topic(topic, partition), partition, pointer, clearing=clearing)
        self._folds = MovedFolds(tables, topic, partition)
        self._none = clearing

    def heads_of(self, ids: Sequence[str]) -> dict[str, Head]:
        return super().heads_of(ids) | self._newer.heads_of(ids)

    def sorted_ids(self) -> list[tuple[bytes, str]]:
        return sorted({*super().sorted_ids(), *self._newer.sorted_ids()})

    def rows(self, id: str, head: Head, start: int, stop: int | None = None, *, batch: int = 1000) -> Iterator[list[EventRow]]:
        if self._newer.holds(id):
            return self._newer.rows(id, head, start, stop, batch=batch)
        return super().rows(id, head, start, stop, batch=batch)

    def moved(self, id: str) -> HeadFold:
        return HeadFold() if self._none else self._folds.at(id, self.pointer.offset)

    def all_moved(self) -> list[tuple[str, HeadFold]]:
        folds = [(id, self.moved(id)) for id in sorted(self._folds.ids(), key=str.encode)]
        return [(id, fold) for id, fold in folds if fold.offset >= 0]
