from __future__ import annotations

from tests.unit.documents.logged import LoggedDocuments

from headwater.documents.known_heads import KnownHeads
from headwater.documents.store import DocumentHead


def test_a_head_that_is_known_is_not_asked_for(logged: LoggedDocuments) -> None:
    heads = KnownHeads()
    with logged.store.view() as stored:
        view = heads.over(stored)
        assert view.head("d/1") == stored.head("d/1")
        assert view.row("d/1") == stored.row("d/1")
        assert view.row("d/7") is None
        assert view.head("absent") is None
        heads.take({"d/1": DocumentHead(uri="d/1", revision=9, deleted=True)})
        assert view.head("d/1") == DocumentHead(uri="d/1", revision=9, deleted=True)
        assert view.row("d/1") is None
        heads.clear()
        assert view.head("d/1") == stored.head("d/1")


def test_everything_else_is_the_stores(logged: LoggedDocuments) -> None:
    with logged.store.view() as stored:
        view = KnownHeads().over(stored)
        assert view.applied() == stored.applied()
        assert view.counted("c~") == stored.counted("c~")
        assert view.rows("c~", limit=5) == stored.rows("c~", limit=5)
        assert view.rows_of("c~", ["01", "x"]) == stored.rows_of("c~", ["01", "x"])
        assert view.indexes("c~") == stored.indexes("c~")
        assert view.index_rows("c~", 1, limit=5) == stored.index_rows("c~", 1, limit=5)
        assert view.changes("c~", limit=5) == stored.changes("c~", limit=5)
        assert view.heads(limit=5) == stored.heads(limit=5)
        assert view.expiring(1 << 60, 5) == stored.expiring(1 << 60, 5)
