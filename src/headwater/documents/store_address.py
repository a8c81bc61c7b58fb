"""Where the stores of documents are, and opening them."""

from __future__ import annotations

from pathlib import Path

from headwater.core.clock import Clock
from headwater.core.errors import BadConfig
from headwater.core.settings import Settings
from headwater.documents.settings import DOCUMENTS_SECTION
from headwater.documents.store import DocumentStores


def open_stores(settings: Settings, data: Path, *, clock: Clock | None = None) -> DocumentStores:
    """Open the stores that the settings name; those of SQLite are in `store/documents` of the data directory. Neither engine's library is
    imported before. Errors: `BadConfig`; those of `Database` and `Keyspace`."""
    if settings.store.engine == "cassandra":
        if not settings.cassandra.contact_points:
            raise BadConfig(
                "`store.engine` is cassandra, and `cassandra.contact_points` is empty.", hint="Name a node, such as node-1:9042."
            )
        from headwater.documents.cassandra import CassandraDocumentStores
        from headwater.store.cassandra.keyspace import Keyspace

        return CassandraDocumentStores(Keyspace(settings.cassandra, clock=clock))
    if settings.log.engine == "kafka" and DOCUMENTS_SECTION.of(settings).keep:
        # The store and the base copy of a partition are on the machine that owned it: the next owner would have neither, nor the log.
        raise BadConfig(
            "`documents.keep` shortens a log on Kafka, and `store.engine` is sqlite: no other server could take a partition over.",
            hint="Set `store.engine` to cassandra, or leave `documents.keep` out.",
        )
    from headwater.documents.sqlite import SqliteDocumentStores

    return SqliteDocumentStores(data.absolute() / "store" / "documents", clock=clock, timeout=settings.store.timeout.seconds)
