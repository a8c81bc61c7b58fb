"""Base copies in the keyspace of the store, where every owner of a partition finds them.

A base copy is the same SQLite file as on a disk, in parts. Its name is listed, its parts are written, the note is replaced, older files are
removed: in this order, each step once the one before is acknowledged. Every write has the time of the offset up to which its copy goes. So
an owner that was paused, and comes late, replaces no newer note, and it removes no file that goes as far as its own, or further.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from headwater.core.files import explaining
from headwater.documents.base_files import BaseFiles, DocumentBaseNote, read_note
from headwater.documents.cassandra_view import STATEMENTS
from headwater.store.cassandra.requests import Requests

PART = 256 << 10
"""Bytes of a part: Cassandra takes no rows that are much larger well."""


class CassandraBaseFiles(BaseFiles):
    """The tables `base_note`, `base_file` and `base_part`. `requests`: few of them are under way at once, because parts are large."""

    def __init__(self, requests: Requests, where: str) -> None:
        self._requests, self._where = requests, where

    def where(self, file: str) -> str:
        return f"{file} at {self._where}"

    def note(self, partition: int, generation: str) -> DocumentBaseNote | None:
        rows = self._requests.one(STATEMENTS["base_note"], (partition, generation))
        return read_note(rows[0][0].encode(), partition, self.where(f"of partition {partition}")) if rows else None

    def fetch(self, note: DocumentBaseNote, target: Path) -> bool:
        with explaining(target), target.open("wb") as written:
            for rows in self._requests.all(self._bound("base_part", note.file, part) for part in range(_parts(note.size))):
                if not rows:
                    return False
                written.write(rows[0][0])
        return True

    def keep(self, file: Path, note: DocumentBaseNote) -> None:
        time = _time(note.applied)
        listed = (note.partition, note.file, note.applied, note.size, time)
        self._requests.write([self._bound("put_base_file", *listed)])
        self._requests.write(self._puts(file, note, time))  # 2.
        text = msgspec.json.encode(note).decode()
        self._requests.write([self._bound("put_base_note", note.partition, note.generation, text, time)])  # 3.
        self._remove_older(note)  # 4.

    def _puts(self, file: Path, note: DocumentBaseNote, time: int) -> Iterator[Any]:
        with explaining(file, reading=True), file.open("rb") as read:
            for part in range(_parts(note.size)):
                yield self._bound("put_base_part", note.file, part, read.read(PART), time)

    def _remove_older(self, note: DocumentBaseNote) -> None:
        time = _time(note.applied)
        for file, applied, size in self._requests.one(STATEMENTS["base_files"], (note.partition,)):
            if file != note.file and applied < note.applied:
                self._requests.write(self._bound("delete_base_part", time, file, part) for part in range(_parts(size)))
                self._requests.write([self._bound("delete_base_file", time, note.partition, file)])

    def _bound(self, name: str, *values: object) -> Any:
        return self._requests.bound(STATEMENTS[name], values)


def _parts(size: int) -> int:
    return -(-size // PART)


def _time(applied: int) -> int:
    """Microseconds, later for a copy that goes further."""
    return applied + 1
