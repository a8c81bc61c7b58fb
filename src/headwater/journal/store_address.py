"""Where the store of journals is, as a value that travels to Spark's tasks, and opening it there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import BadConfig
from headwater.core.settings import CassandraSettings, Settings
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.store import JournalStore


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of SQLite files, or a keyspace of Cassandra. `timeout`: seconds that a writer waits for another one (SQLite)."""

    folder: Path | None = None
    cassandra: CassandraSettings | None = None
    segment_size: int = 10_000
    timeout: float = 30.0

    def __post_init__(self) -> None:
        if (self.folder is None) == (self.cassandra is None):
            raise ValueError("A store is a folder or a keyspace, one of them.")


def store_address_of(settings: Settings, data: Path) -> StoreAddress:
    """The store that the settings name; that of SQLite is `store/journal` in the data directory."""
    size = JOURNAL_SECTION.of(settings).segment_size
    if settings.store.engine == "cassandra":
        if not settings.cassandra.contact_points:
            raise BadConfig(
                "`store.engine` is cassandra, and `cassandra.contact_points` is empty.", hint="Name a node, such as node-1:9042."
            )
        return StoreAddress(cassandra=settings.cassandra, segment_size=size)
    folder = data.absolute() / "store" / "journal"  # a task runs in another folder
    return StoreAddress(folder=folder, segment_size=size, timeout=settings.store.timeout.seconds)


def open_store(address: StoreAddress, *, clock: Clock | None = None) -> JournalStore:
    """Open the store. Neither engine's library is imported before. Errors: those of `Database` and `Keyspace`."""
    if address.cassandra is not None:
        from headwater.journal.cassandra import CassandraJournalStore
        from headwater.store.cassandra.keyspace import Keyspace

        keyspace = Keyspace(address.cassandra, clock=clock)
        try:
            return CassandraJournalStore(keyspace, clock=clock, segment_size=address.segment_size)
        except BaseException:
            keyspace.close()
            raise
    from headwater.journal.sqlite import SqliteJournalStore

    assert address.folder is not None
    return SqliteJournalStore(address.folder, clock=clock, segment_size=address.segment_size, timeout=address.timeout)
