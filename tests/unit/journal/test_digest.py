"""The digest of a partition's copy."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headwater.journal.change import EventRow, PartitionChange
from headwater.journal.digest import head_content, row_content
from headwater.journal.head import Head
from headwater.journal.sqlite import SqliteJournalStore
from headwater.testing.journal_store_ground import History, digest_of, partition

HEAD = Head(partition=0, offset=3, segment_size=7, seq_nr=10, delete_to=2, created=1, updated=2)
ROW = EventRow(seq_nr=1, timestamp=2, partition=0, offset=4, tags=("a", "b"), headers=(("x", "1"), ("y", "2")))


def test_it_changes_with_everything_that_is_stored_and_with_nothing_else(tmp_path: Path) -> None:
    seen = set[str]()
    with SqliteJournalStore(tmp_path, segment_size=2) as small, SqliteJournalStore(tmp_path / "other", segment_size=9) as large:
        history = History("journal-a")
        copy = partition(small, "journal-a")
        seen.add(digest_of(copy))
        for act in (
            lambda: history.append("a", 1, 2),
            lambda: history.append("b", 1),
            lambda: history.mark("a"),
            lambda: history.delete("a", 1),
            lambda: history.purge("b"),
        ):
            act()
            copy.apply(history.change(history.end - 1))
            seen.add(digest_of(copy))
        assert len(seen) == 6
        other = partition(large, "journal-a")
        other.apply(history.change())
        assert digest_of(other) == digest_of(copy)
        copy.apply(PartitionChange("journal-a", 0, "g1", 5, 6, epoch=2))
        other.apply(PartitionChange("journal-a", 0, "g1", 5, 6, epoch=3))
        assert digest_of(other) != digest_of(copy)


def test_more_heads_than_a_page_holds(tmp_path: Path) -> None:
    with SqliteJournalStore(tmp_path) as store:
        digests = set()
        for number, last in enumerate((1500, 1501)):
            history = History(f"journal-{number}")
            for journal in range(last):
                history.append(f"{journal:05}", 1)
            history.topic = "journal-a"
            copy = partition(store, history.topic, number)
            copy.apply(msgspec.structs.replace(history.change(), partition=number))
            digests.add(digest_of(copy))
        assert len(digests) == 2


@pytest.mark.parametrize("field", [name for name in Head.__struct_fields__ if name != "segment_size"])
def test_every_field_of_a_head_counts(field: str) -> None:
    assert head_content("a", msgspec.structs.replace(HEAD, **{field: "other"})) != head_content("a", HEAD)
    assert head_content("a", msgspec.structs.replace(HEAD, segment_size=8)) == head_content("a", HEAD)


@pytest.mark.parametrize("field", [name for name in EventRow.__struct_fields__ if name not in ("tags", "headers")])
def test_every_field_of_a_row_counts(field: str) -> None:
    assert row_content(msgspec.structs.replace(ROW, **{field: "other"})) != row_content(ROW)


def test_tags_are_a_set_and_headers_a_map() -> None:
    same = msgspec.structs.replace(ROW, tags=("b", "a", "a"), headers=(("y", "1"), ("y", "2"), ("x", "1")))
    assert row_content(same) == row_content(ROW)
    assert row_content(msgspec.structs.replace(ROW, tags=("a",))) != row_content(ROW)
    assert row_content(msgspec.structs.replace(ROW, headers=(("x", "1"),))) != row_content(ROW)
