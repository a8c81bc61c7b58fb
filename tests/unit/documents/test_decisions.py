"""Every row of the verbs' table."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest
from tests.unit.documents.ground import draft

from headwater.core.document_errors import DocumentNotFound, NotMatched, UnfitBody, ViewModification
from headwater.core.errors import HeadwaterError, TooLarge
from headwater.documents.change import ChangeRecord, IndexDefinition, SortField
from headwater.documents.decisions import Decided, Moment, check_condition, decide, decide_batch, decide_expiry, is_view
from headwater.documents.draft_body import read_batch, read_draft
from headwater.documents.empty_view import EmptyView
from headwater.documents.index.keys import index_keys
from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.path import parse_path
from headwater.documents.store import AppendedRecord
from headwater.documents.write import BatchDraft, Draft, Precondition

NOW = 1_700_000_000_000


class State:
    """A state that takes what is decided."""

    def __init__(self) -> None:
        self.view = OverlaidView(EmptyView())
        self.offset, self.now, self.most = 0, NOW, 5 << 20

    def take(self, decided: Decided) -> Decided:
        self.view.add(AppendedRecord(self.offset, self.now, decided.record))
        self.offset += 1
        return decided

    def write(self, asked: Draft) -> Decided:
        return self.take(decide(self.view, read_draft(asked), Moment(self.now, lambda: "0" * 32)))

    def batch(self, *asked: Draft) -> Decided:
        read = read_batch(BatchDraft(uri=asked[0].path.uri, drafts=asked))
        return self.take(decide_batch(OverlaidView(self.view), read, Moment(self.now, lambda: "0" * 32), most=self.most))

    def body(self, path: str) -> Any:
        parsed = parse_path(path)
        row = self.view.row(parsed.uri, parsed.item)
        return None if row is None else msgspec.json.decode(row.body)


@pytest.fixture
def state() -> State:
    return State()


def event_of(decided: Decided) -> tuple[str, int, Any, bool]:
    change = decided.record.changes[-1]
    return change.method, change.revision, msgspec.json.decode(change.event) if change.event else None, change.created


def test_put_of_a_document(state: State) -> None:
    assert event_of(state.write(draft("put", "a", {"x": 1, "y": None}))) == ("put", 1, {"x": 1}, True)
    assert event_of(state.write(draft("put", "a", "text"))) == ("put", 2, "text", False)
    assert event_of(state.write(draft("delete", "a"))) == ("delete", 3, None, False)
    assert event_of(state.write(draft("put", "a", None))) == ("put", 4, None, True)
    assert state.view.row("a") is not None


def test_put_of_an_item_creates_its_collection(state: State) -> None:
    assert event_of(state.write(draft("put", "c~/1", {"id": "other"}))) == ("put", 1, {"id": "1"}, True)
    assert event_of(state.write(draft("put", "c~/2", None))) == ("put", 2, {"id": "2"}, True)
    assert event_of(state.write(draft("put", "c~/1", {"x": 1}))) == ("put", 3, {"id": "1", "x": 1}, False)
    with pytest.raises(UnfitBody):
        state.write(draft("put", "c~/1", [1]))
    rows = {row.item: row.revision for row in state.view.rows("c~", limit=9)}
    assert rows == {"1": 3, "2": 2}


def test_a_batch_ends_where_its_record_would_be_too_large(state: State) -> None:
    """Each small patch of a large document leaves a state of its own, which the record holds."""
    state.write(draft("put", "a", {"x": "y" * (1 << 20)}))
    patches = [draft("patch", "a", {"n": number}) for number in range(300)]
    assert len(state.batch(*patches[:4]).writes) == 4
    before = state.view.row("a")
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="from write 5 of 300 on"):
            state.batch(*patches)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert state.view.row("a") == before


def test_post_gives_ids_that_grow(state: State) -> None:
    first = state.write(draft("post", "c~", {"x": 1}))
    assert event_of(first)[0] == "put"
    taken = state.write(draft("put", "c~/01HF7YAT000000000000000001", {})).writes[0].path.item
    state.now -= 60_000
    third = state.write(draft("post", "c~", {}))
    assert first.writes[0].path.item < taken < third.writes[0].path.item
    state.write(draft("delete", "c~"))
    fourth = state.write(draft("post", "c~", {}))
    assert fourth.writes[0].path.item > third.writes[0].path.item
    assert fourth.record.last_id == fourth.writes[0].path.item


def test_a_collection_takes_its_indexes_with_it(state: State) -> None:
    state.write(draft("put", "c~/1", {"n": 1}))
    for number, index in enumerate(("ready", "building", "deleting"), 5):
        definition = IndexDefinition(id=index, number=number, sort_by=(SortField("n"),), state=index)  # type: ignore[arg-type]
        state.take(Decided(ChangeRecord(uri="c~", index=definition), ()))
    assert state.write(draft("delete", "c~/1")).record.ended_indexes == ()
    batch = state.batch(draft("delete", "c~"), draft("put", "c~/2", {"n": 2}))
    assert batch.record.ended_indexes == (5, 6)
    assert {index.state for index in state.view.indexes("c~")} == {"deleting"}
    assert state.view.index_rows("c~", 5, limit=9) == []
    assert state.write(draft("delete", "c~")).record.ended_indexes == ()


def test_a_view_keeps_its_indexes_when_its_source_is_deleted(state: State) -> None:
    state.write(draft("put", "c~/1", {"n": 1}))
    definition = IndexDefinition(id="n", number=5, sort_by=(SortField("n"),), state="ready")
    state.take(Decided(ChangeRecord(uri="c~", index=definition), ()))
    mirrored = msgspec.structs.replace(draft("delete", "c~"), source="7")
    assert state.write(mirrored).record.ended_indexes == ()


def test_patch_changes_what_is_there(state: State) -> None:
    with pytest.raises(DocumentNotFound):
        state.write(draft("patch", "a", {}))
    state.write(draft("put", "a", {"x": 1, "o": {"p": 1}}))
    assert event_of(state.write(draft("patch", "a", {"x": None, "o": {"q": 2}}))) == ("patch", 2, {"x": None, "o": {"q": 2}}, False)
    assert state.body("a") == {"o": {"p": 1, "q": 2}}
    state.write(draft("patch", "a", {"o": None}))
    assert state.body("a") == {}
    state.write(draft("delete", "a"))
    with pytest.raises(DocumentNotFound):
        state.write(draft("patch", "a", {}))


def test_patch_of_an_item_keeps_its_id(state: State) -> None:
    state.write(draft("put", "c~/1", {"x": 1}))
    assert event_of(state.write(draft("patch", "c~/1", {"id": None, "x": 2}))) == ("patch", 2, {"x": 2}, False)
    state.write(draft("patch", "c~/1", [{"op": "replace", "path": "/id", "value": "9"}], patch="operations"))
    assert state.body("c~/1") == {"id": "1", "x": 2}
    for body, kind in (([1], "merge"), ("x", "merge"), ([{"op": "add", "path": "", "value": 1}], "operations"), (1, "increment")):
        with pytest.raises(UnfitBody):
            state.write(draft("patch", "c~/1", body, patch=kind))  # type: ignore[arg-type]


def test_other_patches_are_published_as_merge_patches(state: State) -> None:
    state.write(draft("put", "a", {"n": 1, "l": [1], "o": {"p": 1}}))
    operations = [{"op": "remove", "path": "/l"}, {"op": "add", "path": "/o/q", "value": None}, {"op": "move", "from": "/n", "path": "/m"}]
    assert event_of(state.write(draft("patch", "a", operations, patch="operations")))[2] == {"l": None, "n": None, "m": 1}
    assert state.body("a") == {"o": {"p": 1}, "m": 1}
    assert event_of(state.write(draft("patch", "a", {"m": 2, "k": 1.5}, patch="increment")))[2] == {"m": 3, "k": 1.5}


def test_delete_of_what_is_absent_takes_no_revision(state: State) -> None:
    for path in ("a", "c~", "c~/1"):
        with pytest.raises(DocumentNotFound):
            state.write(draft("delete", path))
    state.write(draft("put", "c~/1", {}))
    with pytest.raises(DocumentNotFound):
        state.write(draft("delete", "c~/2"))
    assert event_of(state.write(draft("delete", "c~/1"))) == ("delete", 2, None, False)
    head = state.view.head("c~")
    assert head is not None
    assert (head.revision, head.deleted) == (2, False)  # empty, and there
    deleted = state.write(draft("delete", "c~"))
    assert (event_of(deleted)[1], deleted.record.generation) == (3, 2)
    with pytest.raises(DocumentNotFound):
        state.write(draft("delete", "c~"))


@pytest.mark.parametrize(
    ("match", "none_match", "tag", "holds"),
    [
        ((), None, 1, True),
        ((), None, None, False),
        ((1, 2), None, 2, True),
        ((1,), None, 2, False),
        ((1,), None, None, False),
        (None, (), None, True),
        (None, (), 1, False),
        (None, (1,), 1, False),
        (None, (2,), 1, True),
        (None, (2,), None, True),
        ((1,), (1,), 1, False),
    ],
)
def test_conditions(match: Any, none_match: Any, tag: int | None, holds: bool) -> None:
    if holds:
        check_condition(Precondition(match, none_match), tag, parse_path("a"))
    else:
        with pytest.raises(NotMatched):
            check_condition(Precondition(match, none_match), tag, parse_path("a"))


def test_an_item_is_matched_by_its_own_revision(state: State) -> None:
    state.write(draft("put", "c~/1", {}))
    state.write(draft("put", "c~/2", {}))
    state.write(draft("put", "c~/1", {"x": 1}, match=(1,)))
    with pytest.raises(NotMatched):
        state.write(draft("put", "c~/1", {}, match=(1,)))
    state.write(draft("post", "c~", {}, match=(3,)))
    with pytest.raises(NotMatched):
        state.write(draft("delete", "c~", match=(3,)))
    with pytest.raises(DocumentNotFound):  # nothing is there: no condition is looked at
        state.write(draft("patch", "b", {}, match=(1,)))


def test_a_batch_counts_together_or_not_at_all(state: State) -> None:
    decided = state.batch(
        draft("put", "c~/1", {"n": 1}), draft("patch", "c~/1", {"n": 2}), draft("post", "c~", {}), draft("delete", "c~/1")
    )
    assert [change.revision for change in decided.record.changes] == [1, 2, 3, 4]
    assert [row.revision for row in state.view.rows("c~", limit=9)] == [3]
    with pytest.raises(DocumentNotFound, match="Write 2 of the batch"):
        state.batch(draft("put", "c~/7", {}), draft("delete", "c~/8"))
    assert state.body("c~/7") is None
    again = state.batch(draft("delete", "c~"), draft("put", "c~/9", {}))
    assert again.record.generation == 2
    assert [row.item for row in state.view.rows("c~", limit=9)] == ["9"]


def test_lives_end(state: State) -> None:
    state.write(draft("put", "a", 1, ttl=100))
    assert decide_expiry(state.view, parse_path("a"), NOW + 99) is None
    kept = state.write(draft("patch", "a", 2))
    assert kept.record.changes[0].expires == NOW + 100
    ended = decide_expiry(state.view, parse_path("a"), NOW + 100)
    assert ended is not None
    assert event_of(ended) == ("delete", 3, None, False)
    state.write(draft("put", "a", 1))
    assert decide_expiry(state.view, parse_path("a"), NOW + 100) is None
    assert decide_expiry(state.view, parse_path("b"), NOW) is None


def test_obsolete_rows_of_indexes_go_with_the_change(state: State) -> None:
    index = IndexDefinition(id="by-n", number=7, sort_by=(SortField("n"),), filter_by="n > 0", state="ready")
    state.write(draft("put", "c~/1", {"n": 1}))
    state.view.add(AppendedRecord(state.offset, NOW, ChangeRecord(uri="c~", index=index)))
    state.offset += 1
    old = index_keys(index).key("1", {"id": "1", "n": 1})
    assert state.write(draft("patch", "c~/1", {"m": 1})).record.changes[0].obsolete == {}
    assert state.write(draft("patch", "c~/1", {"n": 2})).record.changes[0].obsolete == {7: old}
    assert state.write(draft("patch", "c~/1", {"n": 0})).record.changes[0].obsolete.keys() == {7}
    assert state.write(draft("delete", "c~/1")).record.changes[0].obsolete == {}


def test_a_view_is_not_written_by_hand(state: State) -> None:
    state.view.add(AppendedRecord(0, NOW, ChangeRecord(uri="v~", settings=msgspec.Raw(b'{"view":{"of":"a/*"}}'))))
    state.offset = 1
    with pytest.raises(ViewModification):
        state.write(draft("put", "v~/1", {}))
    state.write(msgspec.structs.replace(draft("put", "v~/1", {}), source="0-1"))
    assert not is_view(b'{"schema":{"view":1}}')
    assert issubclass(ViewModification, HeadwaterError)
