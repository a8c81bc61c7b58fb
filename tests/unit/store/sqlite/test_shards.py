"""Rows spread over files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Damaged, NewerFormat
from headwater.store import Migration, Migrations
from headwater.store.sqlite.shards import Shards

STEPS = Migrations("toy", (Migration(1, "a", "create table a (id blob primary key);"),))


def test_a_key_stays_where_it_is_whatever_count_is_asked_for_later(tmp_path: Path) -> None:
    keys = [b"key-%d" % number for number in range(100)]
    with Shards(tmp_path / "s", count=4, synced=False) as shards:
        assert [step.number for step in shards.migrate(STEPS)] == [1]
        for key in keys:
            shards.of(key).run("insert into a values (?)", (key,))
        assert all(database.run("select count(*) from a")[0][0] > 10 for database in shards)
    with Shards(tmp_path / "s", count=16, synced=False) as shards:
        assert shards.count == 4
        assert shards.migrate(STEPS) == []
        assert all(shards.of(key).run("select id from a where id = ?", (key,)) for key in keys)


def test_where_a_key_lies_never_changes(tmp_path: Path) -> None:
    """Another hash would look for the rows of every store that exists in the wrong file."""
    with Shards(tmp_path / "s", count=8, synced=False) as shards:
        places = [shards.of(key).path.name for key in (b"", b"a", b"orders/1", bytes(range(256)))]
    assert places == ["00.db", "03.db", "04.db", "03.db"]


def test_what_is_missing_or_damaged_is_never_taken_for_new(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Shards(folder, count=3, synced=False).close()
    (folder / "01.db").rename(tmp_path / "kept")
    with pytest.raises(Damaged, match=r"01\.db is missing"):
        Shards(folder, count=3, synced=False)
    (tmp_path / "kept").rename(folder / "01.db")
    note = (folder / "shards.json").read_bytes()
    for bad in (b"", b"{}", b'{"count": "x"}'):
        (folder / "shards.json").write_bytes(bad)
        with pytest.raises(Damaged, match=r"shards\.json"):
            Shards(folder, count=3, synced=False)
    (folder / "shards.json").write_bytes(b'{"count": 3, "hash": "other"}')
    with pytest.raises(NewerFormat, match="other"):
        Shards(folder, count=3, synced=False)
    (folder / "shards.json").unlink()
    with pytest.raises(Damaged, match=r"shards\.json is missing"):
        Shards(folder, count=3, synced=False)
    (folder / "shards.json").write_bytes(note)
    Shards(folder, count=3, synced=False).close()
