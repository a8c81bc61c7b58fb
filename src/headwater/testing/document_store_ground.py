"""What the contract of document stores stands on."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from headwater.documents.store import DocumentStore, DocumentStores
from headwater.testing.document_history import RecordedDocuments, definition

OpenDocumentStores = Callable[[], DocumentStores]
URIS = ("a", "a/b", "c~", "d/e~")
ITEMS = ("1", "10", "2", "B", "b")
_bodies = st.fixed_dictionaries(
    {},
    optional={"p": st.one_of(st.integers(-3, 3), st.sampled_from(["x", "y"]), st.booleans()), "q": st.decimals(-1, 1, places=1).map(float)},
)
_step = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(URIS), st.sampled_from(ITEMS), _bodies),
    st.tuples(st.just("put"), st.sampled_from(URIS), st.sampled_from(ITEMS), _bodies),
    st.tuples(st.sampled_from(["patch", "expire", "delete"]), st.sampled_from(URIS), st.sampled_from(ITEMS), _bodies),
    st.tuples(
        st.sampled_from(["clear", "restart", "index", "ready", "drop", "settings", "skip"]), st.sampled_from(URIS), st.just(""), _bodies
    ),
)
STEPS = st.lists(_step, min_size=1, max_size=24)
"""Writes by what is done, uri, item and body."""
CUTS = st.lists(st.integers(1, 23), max_size=5)


def history_of(steps: list[tuple[str, str, str, dict[str, Any]]]) -> RecordedDocuments:
    """The steps as records; what cannot be done is left out."""
    history = RecordedDocuments()
    for number, (kind, uri, named, body) in enumerate(steps):
        collection = uri.endswith("~")
        item = named if collection else ""
        rows = history.rows.get(uri, {})
        indexes = history.indexes.get(uri, {})
        if kind == "put":
            history.put(uri, item, **body)
        elif kind == "expire":
            history.put(uri, item, expires=1_000 + number, **body)
        elif kind == "patch" and item in rows:
            history.patch(uri, item, **body)
        elif kind == "delete" and item in rows:
            history.delete(uri, item)
        elif kind == "clear" and uri in history.heads and not history.heads[uri].deleted:
            history.delete(uri)
        elif kind == "restart" and collection:
            history.write(uri, [("put", "1", body), ("put", "2", body), ("delete", "", None), ("put", "3", body), ("put", "3", {})])
        elif kind == "index" and collection:
            filter_by = "p > 0" if number % 2 else ""
            history.set_index(uri, definition(number + 1, "p", "-q", filter_by=filter_by, materialize=number % 3 == 0))
        elif kind == "ready" and indexes:
            history.set_index(uri, msgspec.structs.replace(indexes[max(indexes)], state="ready"))
        elif kind == "drop" and indexes:
            history.drop_index(uri, min(indexes))
        elif kind == "settings" and collection:
            history.set_settings(uri, number=number)
        elif kind == "skip":
            history.skip()
    return history


class DocumentStoreGround:
    """The fixtures. An engine's test class gives `open_stores`. Each store has a partition of its own, so that tests may share a place."""

    @pytest.fixture
    def open_stores(self) -> OpenDocumentStores:
        raise NotImplementedError("Give a fixture `open_stores`: a function that opens DocumentStores on one place.")

    @pytest.fixture
    def another(self, open_stores: OpenDocumentStores) -> Iterator[OpenDocumentStores]:
        """Opens the stores once more on the same place; all are closed afterwards."""
        with ExitStack() as opened:
            yield lambda: opened.enter_context(open_stores())

    @pytest.fixture
    def stores(self, another: OpenDocumentStores) -> DocumentStores:
        return another()

    @pytest.fixture
    def generation(self) -> str:
        return uuid.uuid4().hex

    @pytest.fixture
    def fresh(self, stores: DocumentStores, generation: str) -> Callable[[], DocumentStore]:
        """An empty store of a partition that nobody else uses."""
        numbers = itertools.count(1000)

        def empty() -> DocumentStore:
            store = stores.partition(next(numbers) % 1010, generation)
            store.clear()
            return store

        return empty

    @pytest.fixture
    def store(self, fresh: Callable[[], DocumentStore]) -> DocumentStore:
        return fresh()

    @pytest.fixture
    def history(self) -> RecordedDocuments:
        return RecordedDocuments()
