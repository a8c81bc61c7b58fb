"""The key store in a keyspace of Cassandra, for processes on several machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Damaged
from headwater.core.ids import Ids, random_id
from headwater.journal.key_store import KeyNote, KeyStore, StoredKey
from headwater.store import Row
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.requests import Requests
from headwater.store.migrations import read_migrations
from headwater.store.statements import read_statements

_TABLES = read_migrations("journal-keys", Path(__file__).with_name("cassandra_key_tables"), suffix="cql")
_STATEMENTS = read_statements(Path(__file__).with_name("cassandra_keys.cql"))
_IDENTITY = "@identity"  # a name that no topic can have
_note = msgspec.json.Decoder(KeyNote)


class CassandraKeyStore(KeyStore):
    """Every write is conditional (LOCAL_SERIAL), reads are at LOCAL_QUORUM. It closes the keyspace.

    `destroy` replaces the key's bytes. Older files of the nodes (SSTables, the commit log, snapshots) hold them until Cassandra compacts
    or removes these files.
    """

    def __init__(self, keyspace: Keyspace, *, requests: Requests | None = None, clock: Clock | None = None, ids: Ids = random_id) -> None:
        self._keyspace, self._ids = keyspace, ids
        keyspace.migrate(_TABLES)
        self._requests = requests or Requests(keyspace, clock=clock)

    def identity(self, *, create: bool = False) -> str:
        rows = self._run("note", _IDENTITY)
        if not rows and create:
            self._run("first_note", _IDENTITY, self._ids())
            rows = self._run("note", _IDENTITY)
        return str(rows[0][0]) if rows else ""

    def keys(self, topic: str, ids: Sequence[str]) -> Mapping[str, list[StoredKey]]:
        requests = [self._requests.bound(_STATEMENTS["keys"], (topic, id)) for id in ids]
        answers = zip(ids, self._requests.all(requests), strict=True)
        return {id: sorted(map(self._key, rows), key=lambda key: (key.created, key.key_id)) for id, rows in answers if rows}

    def add(self, topic: str, keys: Sequence[StoredKey]) -> None:
        erasing = {key.id for key in keys if key.state == "retired"}
        self._write("begin_erasing", [(topic, id) for id in erasing])
        self._write("add", [(topic, k.id, k.key_id, k.cipher, k.state, k.master, k.wrapped, k.created, k.who, k.why) for k in keys])

    def retire(self, topic: str, id: str, *, who: str, why: str) -> None:
        active = [key for key in self.keys(topic, [id]).get(id, []) if key.state == "active"]
        if active:
            self._run("begin_erasing", topic, id)
            self._write("retire", [(who, why, topic, id, key.key_id) for key in active])

    def destroy(self, topic: str, keys: Sequence[StoredKey]) -> None:
        for key in keys:
            if not self._run("destroy", topic, key.id, key.key_id)[0][0]:  # it is not there: note that it was destroyed
                self._run("add", topic, key.id, key.key_id, key.cipher, "destroyed", "", b"", key.created, key.who, key.why)
                self._run("destroy", topic, key.id, key.key_id)
        for id in {key.id for key in keys}:
            if all(key.state != "retired" for key in self.keys(topic, [id]).get(id, [])):
                self._run("end_erasing", topic, id)

    def retired(self, topic: str) -> list[StoredKey]:
        ids = [str(row[0]) for row in self._run("erasing", topic)]
        return [key for keys in self.keys(topic, ids).values() for key in keys if key.state == "retired"]

    def pages(self, topic: str, size: int = 500) -> Iterator[list[StoredKey]]:
        for rows in self._requests.pages(_STATEMENTS["page"], (topic,), size=size):
            yield [self._key(row) for row in rows]

    def rewrap(self, topic: str, key: StoredKey, master: str, wrapped: bytes) -> bool:
        self._run("rewrap", master, wrapped, topic, key.id, key.key_id, key.master, key.wrapped)
        stored = {stored_key.key_id: stored_key for stored_key in self.keys(topic, [key.id]).get(key.id, [])}.get(key.key_id)
        return stored is not None and stored.wrapped == wrapped  # a request that was made twice says that it did nothing

    def note(self, topic: str) -> KeyNote | None:
        rows = self._run("note", topic)
        try:
            return _note.decode(rows[0][0]) if rows else None
        except (msgspec.MsgspecError, TypeError) as error:
            raise self._damaged(f"the note of {topic}: {error}") from error

    def set_note(self, topic: str, note: KeyNote) -> None:
        text = msgspec.json.encode(note).decode()
        self._run("first_note", topic, text)
        self._run("set_note", text, topic)

    def close(self) -> None:
        self._keyspace.close()

    def _run(self, name: str, *values: object) -> list[Row]:
        return self._requests.one(_STATEMENTS[name], values)

    def _write(self, name: str, rows: Sequence[Sequence[object]]) -> None:
        self._requests.write(self._requests.bound(_STATEMENTS[name], row) for row in rows)

    def _key(self, row: Row) -> StoredKey:
        values = dict(zip(StoredKey.__struct_fields__, row, strict=True))
        try:
            return msgspec.convert({name: value for name, value in values.items() if value is not None}, StoredKey)
        except msgspec.ValidationError as error:
            raise self._damaged(f"the key of {row[0]!r:.60}: {error}") from error

    def _damaged(self, what: str) -> Damaged:
        return Damaged(
            f"The table headwater_journal_key of {self._keyspace.where} is damaged, {what}.",
            hint="Restore it from a backup: journals whose keys it lacks stay unreadable.",
        )
