"""The fold of records: lives of collections, rows of indexes, and revisions that must follow."""

from __future__ import annotations

import msgspec
import pytest

from headwater.core.errors import Differs
from headwater.documents.change import ChangeRecord, ResourceChange
from headwater.documents.fold import DocumentFold, FoldBase, FoldedHead, PartitionFold, StoredIndex, keys_of_item
from headwater.documents.store import AppendedRecord, DocumentHead, DocumentRow
from headwater.testing.document_history import RecordedDocuments, definition


class Nothing(FoldBase):
    def stored_head(self, uri: str) -> FoldedHead | None:
        return None

    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        return {}


class Collection(FoldBase):
    """A collection of one revision, with an index that was built."""

    def stored_head(self, uri: str) -> FoldedHead | None:
        return FoldedHead(DocumentHead(uri=uri, revision=1, created=5, modified=5), life=3, offset=7)

    def stored_indexes(self, uri: str) -> dict[int, StoredIndex]:
        return {1: StoredIndex(definition(1, "p", state="ready"), 0, complete=True)}


def put(revision: int, item: str = "1", *, offset: int = 10, **fields: int) -> AppendedRecord:
    change = ResourceChange(method="put", revision=revision, item=item, event=msgspec.Raw(msgspec.json.encode(fields)))
    return AppendedRecord(offset, offset * 10, ChangeRecord(uri="c~", changes=(change,)))


def test_a_row_that_was_there_keeps_the_time_of_its_creation() -> None:
    document = PartitionFold(Collection()).add(put(2))
    row = document.rows["1"]
    assert row is not None
    assert row.created is None
    assert row.row(DocumentRow("1", b"", 1, 44, 44)).created == 44
    assert row.row(None).created == row.modified


def test_a_record_that_the_head_counts_is_passed_over() -> None:
    fold = PartitionFold(Collection())
    assert fold.add(put(1, offset=7)).places == []
    assert [place.revision for place in fold.add(put(2, offset=8)).places] == [2]


@pytest.mark.parametrize("revision", [0, 1, 3])
def test_a_revision_that_does_not_follow_is_refused_and_nothing_is_folded(revision: int) -> None:
    fold = PartitionFold(Collection())
    with pytest.raises(Differs, match=rf"offset 10 is revision {revision} of c~; the store has revision 1"):
        fold.add(put(revision))
    document = fold.documents["c~"]
    assert (document.head.revision, document.rows, document.places, document.offset) == (1, {}, [], 7)


def test_a_life_is_named_by_the_offset_of_the_record_that_ended_the_one_before() -> None:
    history = RecordedDocuments()
    history.put("c~", "1", p=1)
    history.delete("c~")
    history.put("c~", "2", p=1)
    fold = PartitionFold(Nothing())
    for record in history.records:
        document = fold.add(record)
    assert (document.life, set(document.rows), document.ended) == (2, {"2"}, [])


def test_a_stored_life_that_ends_is_to_be_purged() -> None:
    delete = ChangeRecord(uri="c~", changes=(ResourceChange(method="delete", revision=2),))
    document = PartitionFold(Collection()).add(AppendedRecord(10, 1, delete))
    assert (document.life, document.ended, document.head.deleted) == (11, [3], True)


def test_a_greater_generation_ends_the_life_by_itself() -> None:
    later = put(2)._replace(record=msgspec.structs.replace(put(2).record, generation=2))
    document = PartitionFold(Collection()).add(later)
    assert (document.life, document.ended) == (11, [3])


def test_an_index_is_filled_where_it_is_ready_before_it_is_complete() -> None:
    document = DocumentFold("c~", None, {})
    document.add(AppendedRecord(0, 1, ChangeRecord(uri="c~", index=definition(1, "p"))))
    assert document.to_fill == []
    document.add(AppendedRecord(1, 1, ChangeRecord(uri="c~", index=definition(1, "p", state="ready"))))
    assert document.to_fill == [1]
    built = PartitionFold(Collection()).add(AppendedRecord(8, 1, ChangeRecord(uri="c~", index=definition(1, "p", state="ready"))))
    assert built.to_fill == []


def test_an_index_that_is_being_removed_takes_no_rows() -> None:
    document = DocumentFold("c~", None, {1: StoredIndex(definition(1, "p", state="deleting"), 0)})
    document.add(put(1, p=3))
    assert document.index_rows == {}


def test_a_body_that_is_no_object_is_in_no_index() -> None:
    assert keys_of_item([definition(1, "p")], "1", b"[1]") == []
    assert keys_of_item([definition(1, "p")], "1", b"\xff") == []
    assert [number for number, _ in keys_of_item([definition(1, "p"), definition(2, filter_by="p > 1")], "1", b'{"p":1}')] == [1]
