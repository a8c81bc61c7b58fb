"""The key store in one SQLite file of this machine. It lies apart from the log and the store, so that it is backed up apart, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged
from headwater.core.files import Files
from headwater.core.ids import Ids, random_id
from headwater.journal.key_store import KeyNote, KeyStore, StoredKey
from headwater.store import Row
from headwater.store.migrations import read_migrations
from headwater.store.sqlite.database import Database
from headwater.store.statements import read_statements

_TABLES = read_migrations("journal-keys", Path(__file__).with_name("sqlite_key_tables"), suffix="sql")
_STATEMENTS = read_statements(Path(__file__).with_name("sqlite_keys.sql"))
_IDENTITY = "@identity"  # a name that no topic can have
_RESTORE = "Restore it, with the files beside it, from the newest backup: journals whose keys it lacks stay unreadable."
_note = msgspec.json.Decoder(KeyNote)


class SqliteKeyStore(KeyStore):
    """Every commit is synced. Freed bytes are overwritten (`secure_delete`), and `destroy` brings the -wal file into the file and empties
    it. The file system may keep copies of what was overwritten, as snapshots and flash memory do."""

    def __init__(
        self,
        path: Path,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        timeout: float = 30.0,
        ids: Ids = random_id,
        vfs: str | None = None,
    ) -> None:
        self._path, self._files, self._clock, self._timeout, self._ids, self._vfs = path, files, clock, timeout, ids, vfs
        self._guard = threading.Lock()
        self._opened: Database | None = None

    def identity(self, *, create: bool = False) -> str:
        rows = self._read("note", _IDENTITY)
        if rows or not create:
            return str(rows[0][0]) if rows else ""
        with self._explaining(), self._database().transaction() as transaction:
            transaction.rows(_STATEMENTS["first_note"], (_IDENTITY, self._ids()))
            return str(transaction.rows(_STATEMENTS["note"], (_IDENTITY,))[0][0])

    def keys(self, topic: str, ids: Sequence[str]) -> Mapping[str, list[StoredKey]]:
        statement = _STATEMENTS["keys"]
        with self._explaining():
            database = self._there()
        if database is None:
            return {}
        with self._explaining(), database.snapshot() as snapshot:
            rows = {id: snapshot.rows(statement, (topic, id)) for id in ids}
        return {id: [self._key(row) for row in key_rows] for id, key_rows in rows.items() if key_rows}

    def add(self, topic: str, keys: Sequence[StoredKey]) -> None:
        rows = [(topic, k.id, k.key_id, k.cipher, k.state, k.master, k.wrapped, k.created, k.who, k.why) for k in keys]
        with self._explaining(), self._database().transaction() as transaction:
            transaction.many(_STATEMENTS["add"], rows)

    def retire(self, topic: str, id: str, *, who: str, why: str) -> None:
        with self._explaining():
            self._database().run(_STATEMENTS["retire"], (who, why, topic, id))

    def destroy(self, topic: str, keys: Sequence[StoredKey]) -> None:
        with self._explaining():
            database = self._database()
            with database.transaction() as transaction:
                transaction.many(_STATEMENTS["destroy"], [(topic, k.id, k.key_id, k.cipher, k.created, k.who, k.why) for k in keys])
            database.checkpoint()  # pages of the -wal file hold the key; and so does the file, until they are brought there

    def retired(self, topic: str) -> list[StoredKey]:
        return [self._key(row) for row in self._read("retired", topic)]

    def pages(self, topic: str, size: int = 500) -> Iterator[list[StoredKey]]:
        after: tuple[str, bytes] = ("", b"")
        while rows := self._read("page", topic, *after, size):
            page = [self._key(row) for row in rows]
            yield page
            after = page[-1].id, page[-1].key_id

    def rewrap(self, topic: str, key: StoredKey, master: str, wrapped: bytes) -> bool:
        values = (master, wrapped, topic, key.id, key.key_id, key.master, key.wrapped)
        with self._explaining():
            return bool(self._database().run(_STATEMENTS["rewrap"], values))

    def note(self, topic: str) -> KeyNote | None:
        rows = self._read("note", topic)
        try:
            return _note.decode(rows[0][0]) if rows else None
        except (msgspec.MsgspecError, TypeError) as error:
            raise self._damaged(f"its note of {topic}: {error}") from error

    def set_note(self, topic: str, note: KeyNote) -> None:
        with self._explaining():
            self._database().run(_STATEMENTS["set_note"], (topic, msgspec.json.encode(note).decode()))

    def close(self) -> None:
        with self._guard:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    # -- the file ---------------------------------------------------------------------------------------------

    def _there(self) -> Database | None:
        """The file; None where there is none: whoever only reads makes none."""
        return self._database() if self._opened is not None or self._path.exists() else None

    def _database(self) -> Database:
        with self._guard:
            if self._opened is None:
                opened = Database(
                    self._path, synced=True, secure=True, timeout=self._timeout, files=self._files, clock=self._clock, vfs=self._vfs
                )
                try:
                    opened.migrate(_TABLES)
                except BaseException:
                    opened.close()
                    raise
                self._opened = opened
            return self._opened

    def _read(self, name: str, *values: object) -> list[Row]:
        with self._explaining():
            database = self._there()
        if database is None:
            return []
        with self._explaining(), database.snapshot() as snapshot:
            return snapshot.rows(_STATEMENTS[name], values)

    def _key(self, row: Row) -> StoredKey:
        try:
            return msgspec.convert(dict(zip(StoredKey.__struct_fields__, row, strict=True)), StoredKey)
        except msgspec.ValidationError as error:
            raise self._damaged(f"the key of {row[0]!r:.60}: {error}") from error

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Damage of the file says what to do about this one: no log holds what is in it."""
        try:
            yield
        except Damaged as error:
            raise Damaged(error.message, hint=_RESTORE) from error

    def _damaged(self, what: str) -> Damaged:
        return Damaged(f"{self._path} is damaged, {what}.", hint=_RESTORE)
