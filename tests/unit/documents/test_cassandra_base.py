"""Base copies in a keyspace: what counts where owners come late. `tests/services` has a real node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.documents.test_base_files import made, note

from headwater.documents import cassandra_base
from headwater.documents.cassandra_base import CassandraBaseFiles
from headwater.documents.cassandra_view import STATEMENTS

_NAMES = {statement: name for name, statement in STATEMENTS.items()}
_KEYS = {"base_note": 2, "base_file": 2, "base_part": 2}
Asked = tuple[str, Sequence[Any]]


class Rows:
    """Rows of which the write with the latest time counts, as in Cassandra. Fails after `left` writes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[int, Sequence[Any] | None]] = {}
        self.left = 1 << 30

    def bound(self, statement: str, values: Sequence[Any]) -> Asked:
        return _NAMES[statement], values

    def one(self, statement: str, values: Sequence[Any]) -> list[Sequence[Any]]:
        return self._found(self.bound(statement, values))

    def all(self, requests: Iterable[Asked]) -> Iterator[list[Sequence[Any]]]:
        return map(self._found, requests)

    def write(self, requests: Iterable[Asked]) -> None:
        for name, values in requests:
            self.left -= 1
            if self.left < 0:
                raise OSError("the process has died")
            verb, _, table = name.partition("_")
            if verb == "put":
                key, time, row = values[:2], values[-1], values[1:-1] if table == "base_file" else values[2:-1]
            else:
                key, time, row = values[1:], values[0], None
            if self.rows.get((table, *key), (0, None))[0] <= time:
                self.rows[table, *key] = time, row

    def _found(self, asked: Asked) -> list[Sequence[Any]]:
        name, values = asked
        table = "base_file" if name == "base_files" else name
        return [row for key, (_, row) in self.rows.items() if key[: len(values) + 1] == (table, *values) and row is not None]

    def files(self) -> set[str]:
        return {key[1] for key, (_, row) in self.rows.items() if key[0] == "base_part" and row is not None}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    monkeypatch.setattr(cassandra_base, "PART", 4)
    return Rows()


def kept_in(rows: Rows) -> CassandraBaseFiles:
    return CassandraBaseFiles(rows, "node-1, keyspace k")  # type: ignore[arg-type]


def test_the_last_copy_that_was_kept_counts_and_the_one_before_is_removed(rows: Rows, tmp_path: Path) -> None:
    kept = kept_in(rows)
    assert kept.note(0, "g") is None
    for applied, content in ((3, b"first copy"), (9, b"12345678")):
        kept.keep(made(tmp_path, content), note(applied, content))
        found = kept.note(0, "g")
        assert found == note(applied, content)
        assert kept.fetch(found, tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == content
    assert rows.files() == {found.file}
    assert kept.note(0, "another") is None
    assert kept.note(1, "g") is None
    assert not kept.fetch(note(3, b"first copy"), tmp_path / "fetched")
    assert kept.where(found.file) == f"{found.file} at node-1, keyspace k"


def test_a_death_at_any_write_leaves_the_copy_before_or_the_new_one(rows: Rows, tmp_path: Path) -> None:
    old, new = b"old copy", b"the new copy"
    for writes in range(20):
        rows.rows.clear()
        rows.left = 1 << 30
        kept_in(rows).keep(made(tmp_path, old), note(3, old))
        rows.left = writes
        try:
            kept_in(rows).keep(made(tmp_path, new), note(9, new))
        except OSError:
            died = True
        else:
            died = False
        found = kept_in(rows).note(0, "g")
        assert found is not None
        assert kept_in(rows).fetch(found, tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == (old if found.applied == 3 else new)
        rows.left = 1 << 30
        kept_in(rows).keep(made(tmp_path, b"last"), note(10, b"last"))
        assert rows.files() == {note(10, b"last").file}, "what deaths have left is removed, too"
        if not died:
            return
    raise AssertionError("it always died")


def test_an_owner_that_comes_late_replaces_and_removes_nothing_newer(rows: Rows, tmp_path: Path) -> None:
    newer, late, same = b"the newer copy", b"late", b"as far"
    kept_in(rows).keep(made(tmp_path, newer), note(9, newer))
    kept_in(rows).keep(made(tmp_path, late), note(5, late))
    kept_in(rows).keep(made(tmp_path, same), note(9, same, generation="h"))
    assert kept_in(rows).note(0, "g") == note(9, newer)
    assert kept_in(rows).fetch(note(9, newer), tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == newer
