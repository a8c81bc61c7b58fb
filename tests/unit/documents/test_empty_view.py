from __future__ import annotations

from headwater.documents.empty_view import EmptyView


def test_nothing_is_there() -> None:
    view = EmptyView()
    assert (view.applied(), view.head("a"), view.row("a"), view.rows_of("a~", ["1", "2"])) == (0, None, None, [None, None])
    assert not view.rows("a~", limit=1) + view.indexes("a~") + view.index_rows("a~", 1, limit=1) + view.changes("a", limit=1)
    assert not view.heads(limit=1)
    assert not view.expiring(1, 1)
