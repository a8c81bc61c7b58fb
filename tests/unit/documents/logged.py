"""A log on a disk with the records of a history, and stores beside it."""

from __future__ import annotations

from pathlib import Path

from headwater.documents.change import encode_record
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, Topic
from headwater.testing.document_history import RecordedDocuments

TOPIC = "hyper-storage"


class LoggedDocuments:
    """One partition of documents. `history` makes the records, `append` writes those that are not yet written."""

    def __init__(self, folder: Path) -> None:
        self.log = EmbeddedLog(folder / "data")
        self.stores = SqliteDocumentStores(folder / "documents")
        self.topic: Topic = self.log.create_topic(TOPIC, partitions=1, part="documents")
        self.store: DocumentStore = self.stores.partition(0, self.topic.generation)
        self.history = RecordedDocuments()
        self._written = 0

    def append(self, *, applies: bool = True) -> None:
        records = self.history.records[self._written :]
        self._written += len(records)
        self.log.append(
            TOPIC,
            0,
            [Record(record.uri.encode(), encode_record(record), timestamp=time) for _, time, record in records],
            part="documents",
        )
        if applies:
            self.store.apply(records, self.history.end)

    def close(self) -> None:
        self.stores.close()
        self.log.close()
