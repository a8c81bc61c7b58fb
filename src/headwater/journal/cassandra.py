"""Event journals in Cassandra, in the tables of kafka-journal: either side reads what the other has written."""

from __future__ import annotations

from pathlib import Path

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput
from headwater.journal.cassandra_partition import CassandraPartitionStore
from headwater.journal.cassandra_rings import CassandraRingStore
from headwater.journal.cassandra_view import CassandraTables
from headwater.journal.names import SNAPSHOTS
from headwater.journal.store import JournalStore
from headwater.log.record import check_topic_name
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.requests import Requests
from headwater.store.migrations import read_migrations
from headwater.store.statements import read_statements

TABLES = read_migrations("journal", Path(__file__).with_name("cassandra_tables"), suffix="cql")
_STATEMENTS = read_statements(Path(__file__).with_name("cassandra.cql"))
_OLDER = "headwater/older-heads"  # the setting that says whether an older kafka-journal may have left heads


class CassandraJournalStore(JournalStore):
    """The tables of a keyspace, which are made where they are missing. Reads and writes are at LOCAL_QUORUM, and tried again for some
    seconds. It closes the keyspace. A forked child opens its own.

    Errors: those of `Keyspace.migrate` and `Requests`.
    """

    def __init__(
        self, keyspace: Keyspace, *, requests: Requests | None = None, clock: Clock | None = None, segment_size: int = 10_000
    ) -> None:
        self.keyspace, self._clock, self._segment_size = keyspace, clock or SystemClock(), segment_size
        keyspace.migrate(TABLES)
        self._tables = CassandraTables(requests or Requests(keyspace, clock=self._clock), _STATEMENTS, older=True)
        self._tables.older = self._older()

    def topics(self) -> list[str]:
        pointers = self._tables.rows("pointers")
        return sorted({topic for topic, offset in pointers if offset is not None and offset >= 0 and not topic.startswith(SNAPSHOTS)})

    def partition(self, topic: str, partition: int, generation: str, *, create: bool = True) -> CassandraPartitionStore | None:
        """As `JournalStore.partition`. Errors: `BadInput` for what is no name of a topic."""
        check_topic_name(topic)
        if partition < 0:
            raise BadInput(f"{topic} has no partition {partition}.", hint="Partitions are numbered from 0.")
        self.keyspace.check_open()
        store = CassandraPartitionStore(topic, partition, generation, self._tables, clock=self._clock, segment_size=self._segment_size)
        if not create:
            position = store.position()
            if not position.there and position.note is None:
                return None
        return store

    def snapshots(self, topic: str, partition: int, generation: str, *, create: bool = True) -> CassandraRingStore | None:
        """As `JournalStore.snapshots`. Errors: as `partition`."""
        check_topic_name(topic)
        self.keyspace.check_open()
        store = CassandraRingStore(topic, partition, generation, self._tables, clock=self._clock)
        if not create:
            position = store.position()
            if not position.there and position.note is None:
                return None
        return store

    def setting(self, key: str) -> str | None:
        rows = self._tables.rows("setting", _key(key))
        return rows[0][0] if rows else None

    def set_setting(self, key: str, value: str | None) -> str | None:
        before = self.setting(key)
        if value is None:
            self._tables.rows("delete_setting", _key(key))
        else:
            self._tables.rows("set_setting", _key(key), value, self._clock.now_ms(), "headwater")
        return before

    def close(self) -> None:
        self.keyspace.close()

    def _older(self) -> bool:
        """Whether heads may lie in one of 100 segments. Where the table was empty at first, none does: nobody writes there any more."""
        noted = self._tables.rows("setting", _OLDER)
        if noted:
            return bool(noted[0][0] == "yes")
        older = bool(self._tables.rows("any_head"))
        self._tables.rows("set_setting", _OLDER, "yes" if older else "no", self._clock.now_ms(), "headwater")
        return older


def _key(key: str) -> str:
    """The key in the table `setting`, whose other rows are kafka-journal's."""
    return f"headwater/setting/{key}"
