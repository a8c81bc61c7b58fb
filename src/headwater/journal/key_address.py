"""Where the keys of encrypted journals are, as a value that travels to Spark's tasks: no key travels with it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.settings import CassandraSettings, Settings
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.key_store import KeyStore
from headwater.journal.master_keys import load_master_keys
from headwater.journal.settings import JOURNAL_SECTION

FILE = Path("keys") / "journal.db"
"""The key store within the data directory."""


class KeyAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A key store, and where its master keys are written: in a file, or in an environment variable."""

    path: Path | None = None
    cassandra: CassandraSettings | None = None
    key_file: Path | None = None
    key_variable: str = ""
    timeout: float = 30.0

    @property
    def configured(self) -> bool:
        """Whether there are master keys."""
        return self.key_file is not None or bool(self.key_variable)


def key_address_of(settings: Settings, data: Path) -> KeyAddress:
    """The key store beside the log on this machine, or in Cassandra where the store is there."""
    journal = JOURNAL_SECTION.of(settings)
    file = None if journal.key_file is None else journal.key_file.absolute()  # a task runs in another folder
    if settings.store.engine == "cassandra":
        return KeyAddress(cassandra=settings.cassandra, key_file=file, key_variable=journal.key_variable)
    path = data.absolute() / FILE
    return KeyAddress(path=path, key_file=file, key_variable=journal.key_variable, timeout=settings.store.timeout.seconds)


def open_keys(address: KeyAddress, *, clock: Clock | None = None) -> EntityKeys:
    """Open the key store with its master keys. Errors: `BadConfig` without master keys; `Unsupported` without the library; of the store."""
    masters = load_master_keys(address.key_file, address.key_variable)
    return EntityKeys(open_key_store(address, clock=clock), masters, clock=clock)


def open_key_store(address: KeyAddress, *, clock: Clock | None = None) -> KeyStore:
    """Open the key store alone. Errors: those of `Database` and `Keyspace`."""
    if address.cassandra is not None:
        from headwater.journal.cassandra_keys import CassandraKeyStore
        from headwater.store.cassandra.keyspace import Keyspace

        keyspace = Keyspace(address.cassandra, clock=clock)
        try:
            return CassandraKeyStore(keyspace, clock=clock)
        except BaseException:
            keyspace.close()
            raise
    from headwater.journal.sqlite_keys import SqliteKeyStore

    assert address.path is not None
    return SqliteKeyStore(address.path, clock=clock, timeout=address.timeout)
