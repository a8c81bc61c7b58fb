"""What has changed since a copy was planned: it comes with its change, and not with the copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.adaptors.headwater.connection import HeadwaterConnection
from headwater.adaptors.headwater.source import READ_AGAIN, TopicPartitionReader
from headwater.core.errors import Differs, OffsetGone
from headwater.documents.change import decode_record
from headwater.documents.path import partition_of
from headwater.log.record import Topic


class ChangedDocuments:
    """The documents and items that have changed behind the cursor of a plan. Reads each partition once, as far as it is asked for."""

    def __init__(self, connection: HeadwaterConnection, topic: Topic, at: Mapping[str, Sequence[int]]) -> None:
        """`at`: by partition, the position where the changes begin."""
        self._connection, self._topic, self._at = connection, topic, at
        self._readers: dict[int, TopicPartitionReader] = {}
        self._changed: set[tuple[str, str]] = set()

    def since(self, uri: str) -> set[tuple[str, str]]:
        """Every (uri, item) that has changed in the partition of a document or collection until now, and perhaps others.

        Errors: `Differs` where the log no longer has these changes; `Unreachable`.
        """
        number = partition_of(uri, self._topic.partitions)
        if number not in self._readers:
            self._readers[number] = TopicPartitionReader(self._connection, self._topic.name, number, self._at[str(number)], whole=False)
        reader, more = self._readers[number], True
        try:
            while more:
                more = False
                for records, _ in reader.next(None):
                    more = True
                    for log_record in records:
                        if log_record.key is not None:
                            record = decode_record(log_record.value, f"{self._topic.name}/{number} at offset {log_record.offset}")
                            self._changed.update((record.uri, change.item) for change in record.changes)
        except OffsetGone as error:
            raise Differs(f"{error.message} The copy needs them.", hint=READ_AGAIN) from error
        return self._changed
