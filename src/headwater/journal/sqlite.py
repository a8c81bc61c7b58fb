"""Event journals in SQLite: a file for each partition of each topic, so that those who copy two partitions never wait for each other."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from pathlib import Path
from weakref import WeakValueDictionary

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadInput, Closed
from headwater.core.files import Files
from headwater.journal.names import SNAPSHOTS
from headwater.journal.sqlite_partition import STATEMENTS, SqlitePartitionStore
from headwater.journal.sqlite_rings import SqliteRingStore
from headwater.journal.store import JournalStore
from headwater.log.record import check_topic_name
from headwater.store.migrations import read_migrations
from headwater.store.sqlite.database import Database

_TABLES = read_migrations("journal", Path(__file__).with_name("sqlite_tables"), suffix="sql")
_SETTING_TABLES = read_migrations("journal-settings", Path(__file__).with_name("sqlite_settings"), suffix="sql")
_SETTINGS = "@settings.db"  # a name that no topic can have
_FILE = re.compile(r"(0|[1-9][0-9]*)[.]db")


class SqliteJournalStore(JournalStore):
    """The files `<folder>/<topic>/<partition>.db`, and the settings that all processes share.

    A commit is not synced: the pointer is set in the same transaction, so a loss of power takes the last changes, each whole, and they
    are copied again. `checkpoint` syncs. It may be used in a forked child. `open_files`: so many partitions stay open for the next call.
    """

    def __init__(
        self,
        folder: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        segment_size: int = 10_000,
        timeout: float = 30.0,
        open_files: int = 256,
        vfs: str | None = None,
    ) -> None:
        self.folder, self._files, self._clock = folder, files or Files(), clock or SystemClock()
        self._segment_size, self._timeout, self._open_files, self._vfs = segment_size, timeout, open_files, vfs
        self._guard = threading.Lock()
        self._open: WeakValueDictionary[tuple[str, int], Database] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[str, int], Database] = OrderedDict()
        self._settings: Database | None = None
        self._closed = False

    def topics(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return [folder.name for folder in sorted(self.folder.iterdir()) if folder.is_dir() and self._copied(folder)]

    def partition(self, topic: str, partition: int, generation: str, *, create: bool = True) -> SqlitePartitionStore | None:
        """As `JournalStore.partition`. Errors: `BadInput` for what is no name of a topic, and those of `Database`."""
        check_topic_name(topic)
        if partition < 0:
            raise BadInput(f"{topic} has no partition {partition}.", hint="Partitions are numbered from 0.")
        with self._guard:
            database = self._database(topic, partition, create=create)
        if database is None:
            return None
        return SqlitePartitionStore(topic, partition, generation, database, clock=self._clock, segment_size=self._segment_size)

    def snapshots(self, topic: str, partition: int, generation: str, *, create: bool = True) -> SqliteRingStore | None:
        """As `JournalStore.snapshots`: in the file of the journals' partition. Errors: as `partition`."""
        check_topic_name(topic)
        with self._guard:
            database = self._database(topic.removeprefix(SNAPSHOTS), partition, create=create)
        return None if database is None else SqliteRingStore(topic, partition, generation, database, clock=self._clock)

    def setting(self, key: str) -> str | None:
        database = self._settings_file(create=False)
        if database is None:
            return None
        with database.snapshot() as snapshot:
            row = snapshot.row(STATEMENTS["setting"], (key,))
        return row[0] if row else None

    def set_setting(self, key: str, value: str | None) -> str | None:
        database = self._settings_file(create=value is not None)
        if database is None:
            return None
        with database.transaction() as transaction:
            row = transaction.row(STATEMENTS["setting"], (key,))
            if value is None:
                transaction.rows(STATEMENTS["delete_setting"], (key,))
            else:
                transaction.rows(STATEMENTS["set_setting"], (key, value, self._clock.now_ms()))
        return row[0] if row else None

    def close(self) -> None:
        with self._guard:
            self._closed = True
            databases = [*self._open.values(), *([self._settings] if self._settings else [])]
            self._recent.clear()
        for database in databases:
            database.close()

    # -- files ------------------------------------------------------------------------------------------------

    def _copied(self, folder: Path) -> bool:
        """Whether a partition of the topic has a pointer. A file without one is what a process left that died before its first change."""
        for file in sorted(folder.iterdir()):
            if named := _FILE.fullmatch(file.name):
                with self._guard:
                    database = self._database(folder.name, int(named[1]), create=False)
                if database is not None:
                    with database.snapshot() as snapshot:
                        pointers = snapshot.rows(STATEMENTS["pointer"])
                    if any(topic == folder.name and offset >= 0 for topic, _, offset, *_ in pointers):
                        return True
        return False

    def _database(self, topic: str, partition: int, *, create: bool) -> Database | None:
        """The open file of a partition. The caller holds the guard."""
        self._check()
        name = (topic, partition)
        database = self._open.get(name)
        if database is None:
            path = self.folder / topic / f"{partition}.db"
            if not create and not path.exists():
                return None
            database = self._opened(path, synced=False)
            database.migrate(_TABLES)
            self._open[name] = database
        self._recent[name] = database
        self._recent.move_to_end(name)
        if len(self._recent) > self._open_files:
            self._recent.popitem(last=False)  # its connections are closed once nobody uses it any more
        return database

    def _settings_file(self, *, create: bool) -> Database | None:
        with self._guard:
            self._check()
            path = self.folder / _SETTINGS
            if self._settings is None and (create or path.exists()):
                settings = self._opened(path, synced=True)  # no log holds them
                settings.migrate(_SETTING_TABLES)
                self._settings = settings
            return self._settings

    def _opened(self, path: Path, *, synced: bool) -> Database:
        return Database(path, synced=synced, timeout=self._timeout, files=self._files, clock=self._clock, vfs=self._vfs)

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"The store of journals in {self.folder} is closed.", hint="Open it again.")
