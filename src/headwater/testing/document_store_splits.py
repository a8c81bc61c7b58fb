"""The contract of document stores: a history leaves the same store for every split into calls, and the one that a model has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.documents.overlaid_view import OverlaidView
from headwater.documents.store import DocumentStore, DocumentView
from headwater.testing.document_history import RecordedDocuments
from headwater.testing.document_store_ground import CUTS, ITEMS, STEPS, URIS, DocumentStoreGround, history_of


class DocumentStoreSplits(DocumentStoreGround):
    """`examples`: how many histories are tried, None: as many as the profile says."""

    examples: int | None = None

    def test_every_split_and_repetition_leaves_the_store_that_the_model_has(self, fresh: Callable[[], DocumentStore]) -> None:
        @given(STEPS, CUTS, CUTS, st.data())
        def check(steps: list[tuple[str, str, str, dict[str, Any]]], cuts: list[int], others: list[int], data: st.DataObject) -> None:
            history, whole, parts = history_of(steps), fresh(), fresh()
            history.apply_to(whole)
            with whole.view() as view:
                history.check(view)
                assert view.applied() == history.end
            history.apply_to(parts, cuts)
            assert parts.digest() == whole.digest()
            history.apply_to(parts, others)
            while parts.purge(data.draw(st.integers(1, 3))):
                pass
            assert parts.digest() == whole.digest()

        (settings(max_examples=self.examples)(check) if self.examples else check)()

    def test_records_over_a_view_read_as_if_they_were_applied(self, fresh: Callable[[], DocumentStore]) -> None:
        narrowed = st.tuples(st.sampled_from(["", *ITEMS]), st.sampled_from([None, *ITEMS]), st.integers(1, 4), st.booleans())

        @given(STEPS, st.integers(0, 23), narrowed)
        def check(steps: list[tuple[str, str, str, dict[str, Any]]], applied: int, narrowed: tuple[str, str | None, int, bool]) -> None:
            history, store, whole = history_of(steps), fresh(), fresh()
            applied = min(applied, history.end)
            store.apply([record for record in history.records if record.offset < applied], applied)
            history.apply_to(whole)
            with store.view() as view, whole.view() as expected:
                overlaid = OverlaidView(view, history.records)
                history.check(overlaid)
                answers = _answers(overlaid, history, narrowed)
                assert answers == _answers(expected, history, narrowed)

        (settings(max_examples=self.examples)(check) if self.examples else check)()


def _answers(view: DocumentView, history: RecordedDocuments, narrowed: tuple[str, str | None, int, bool]) -> list[object]:
    """What a view says to one narrow question of each kind. Rows of indexes that were not built are no one's to know."""
    low, high, limit, reverse = narrowed
    answers: list[object] = [view.heads(prefix="a", after=low, limit=limit), view.expiring(1015, limit)]
    for uri in URIS:
        answers.append(view.rows(uri, low=low, high=high, limit=limit, reverse=reverse))
        answers.append(view.rows_of(uri, ITEMS))
        answers.append(view.changes(uri, after=limit, limit=limit, reverse=reverse))
        answers.append(view.changes(uri, limit=limit, reverse=reverse))
        answers.append([index.number for index in view.indexes(uri)])
        for number, index in history.indexes.get(uri, {}).items():
            keys = [row.key for row in history.index_rows(uri, number)]
            if index.state == "building" and len(keys) > 1:
                answers.append(view.index_rows(uri, number, low=keys[0], high=keys[-1], limit=limit, reverse=reverse, copies=True))
    return answers
