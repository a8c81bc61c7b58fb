from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.ground import FlakyStores, documents_in, draft, put

from headwater.core.document_errors import DocumentNotFound
from headwater.core.errors import BadInput
from headwater.documents.settings import DocumentSettings
from headwater.documents.transactions import latest_transactions, pending_transactions, transaction_status, transactions_of
from headwater.documents.write import BatchDraft

pytestmark = pytest.mark.anyio
ONE = DocumentSettings(partitions=1)


async def test_a_transaction_is_accepted_then_applied(tmp_path: Path) -> None:
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, settings=ONE) as documents:
            assert latest_transactions(documents) == pending_transactions(documents) == transactions_of(documents, "a") == []
            first = await put(documents, "a", 1)
            found = transaction_status(documents, first.transaction)
            assert (found.path, found.method, found.revision, found.state) == ("a", "put", 1, "applied")
            assert (found.accepted, found.indexed, found.published) == (True, True, True)
            stores.failing = True
            later = await put(documents, "b~/1", {})
            found = transaction_status(documents, later.transaction)
            assert (found.path, found.state, found.applied, found.published) == ("b~/1", "accepted", False, True)
            assert [one.id for one in pending_transactions(documents)] == [later.transaction]
            assert [one.id for one in latest_transactions(documents, limit=2)] == [later.transaction, first.transaction]


async def test_the_transactions_of_a_collection_come_newest_first(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=ONE) as documents:
        await put(documents, "c~/1", {})
        batch = await documents.write_batch(BatchDraft(uri="c~", drafts=(draft("put", "c~/2", {}), draft("delete", "c~/1"))))
        found = transactions_of(documents, "c~")
        assert [(one.revision, one.path, one.method) for one in found] == [
            (3, "c~/1", "delete"),
            (2, "c~/2", "put"),
            (1, "c~/1", "put"),
        ]
        assert found[0].id == batch[1].transaction
        assert transaction_status(documents, batch[0].transaction).path == "c~/2"
        assert len(transactions_of(documents, "c~", limit=2)) == 2


async def test_what_is_no_transaction_is_told_apart(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=ONE) as documents:
        first = await put(documents, "a", 1)
        for id in ("", "x", "0-1", "0-1-2-3", "a/b"):
            with pytest.raises(BadInput):
                transaction_status(documents, id)
        for id in ("0-9-1", "7-0-1", "0-0-2", first.transaction.replace("-1", "-7")):
            with pytest.raises(DocumentNotFound):
                transaction_status(documents, id)
