from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.logged import LoggedDocuments

from headwater.cluster.local import LocalOwnership
from headwater.documents.partition_reads import NOTHING, PartitionReads


def test_the_store_is_read_with_the_tail_that_it_lacks(logged: LoggedDocuments) -> None:
    reads = PartitionReads(logged.log, logged.stores, logged.topic, 0)
    applied = reads.applied()
    logged.history.put("d/1", text="new")
    logged.history.put("c~", "30", p=5)
    logged.append(applies=False)
    assert (reads.applied(), reads.end()) == (applied, applied + 2)
    with reads.view("d/1") as view:
        row = view.row("d/1")
        assert row is not None
        assert b"new" in row.body
        assert view.row("c~", "30") is None  # of another document: it was not asked for
    with reads.view() as view:
        assert view.row("c~", "30") is not None
        assert view.applied() == applied + 2
    with reads.view("d/2") as view:
        assert view.applied() == applied


def test_a_point_is_read_with_the_tail_that_the_store_lacks(logged: LoggedDocuments) -> None:
    reads = PartitionReads(logged.log, logged.stores, logged.topic, 0)
    before = reads.point("d/1")
    assert before == reads.store.point("d/1")
    logged.history.put("d/1", text="new")
    logged.append(applies=False)
    found = reads.point("d/1")
    assert found.row is not None
    assert b"new" in found.row.body
    assert found.revision == before.revision + 1
    assert reads.point("absent") == (before.applied, 0, None)


def test_a_reader_makes_no_store(logged: LoggedDocuments) -> None:
    topic = logged.log.create_topic("other", partitions=1, part="documents")
    reads = PartitionReads(logged.log, logged.stores, topic, 0)
    with reads.view("a") as view:
        assert view is NOTHING
    assert reads.applied() == reads.end() == 0


def test_an_owner_on_a_log_without_memory_knows_its_end(logged: LoggedDocuments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reads = PartitionReads(logged.log, logged.stores, logged.topic, 0)
    monkeypatch.setattr(logged.log, "known_end", lambda topic, partition: None)
    assert reads.end() == logged.history.end
    with LocalOwnership(logged.log, tmp_path / "owners") as owners, LocalOwnership(logged.log, tmp_path / "owners") as others:
        reads.owner, reads.owned_end = owners.own(logged.topic.name, 0, part="documents"), 7
        assert reads.end() == 7
        others.own(logged.topic.name, 0, part="documents", take_over=True)  # nobody has written here since
        assert reads.end() == logged.history.end
