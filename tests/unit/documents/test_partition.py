"""The failure matrix: what the client sees, and what is true later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.unit.documents.ground import FlakyStores, body_of, documents_in, draft, put

from headwater.core.document_errors import DocumentNotFound, NotMatched
from headwater.core.errors import Busy, Differs, DiskFull, Fenced, LogGap, NotOwner, OutcomeUnknown, TooLarge, Unavailable
from headwater.documents.calls import DroppedIndexCall, RedriveCall, SettingsCall, deleted_index, index_state, new_index
from headwater.documents.change import ChangeRecord, IndexDefinition, SortField, decode_record
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.settings import DocumentSettings
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


def revisions(documents: OpenDocuments, uri: str) -> list[int]:
    """Of all events of a document, as the log has them."""
    records = documents.log.read(TOPIC, documents.partition_of(uri), 0, limit=10_000)
    decoded = [decode_record(record.value, "") for record in records]
    return [change.revision for record in decoded if record.uri == uri for change in record.changes]


async def test_before_the_append_nothing_is_stored(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
        outcomes = await asyncio.gather(
            documents.write(draft("patch", "absent", {})),
            put(documents, "a", 2, match=(9,)),
            put(documents, "a", 3),
            return_exceptions=True,
        )
        assert [type(one).__name__ for one in outcomes] == ["DocumentNotFound", "NotMatched", "WrittenDocument"]
        assert isinstance(outcomes[0], DocumentNotFound)
        assert isinstance(outcomes[1], NotMatched)
        assert revisions(documents, "a") == [1, 2]


@pytest.mark.parametrize("error", [DiskFull("full"), Unavailable("no"), OutcomeUnknown("perhaps"), OSError(5, "no")])
async def test_an_append_that_did_nothing_leaves_no_gap(tmp_path: Path, error: Exception) -> None:
    outcomes: list[object] = []
    async with documents_in(tmp_path, outcomes=outcomes) as documents:
        await put(documents, "a", 0)
        outcomes.append(error)
        failed = await asyncio.gather(*(put(documents, "a", number) for number in range(1, 4)), return_exceptions=True)
        assert [isinstance(one, Unavailable) and not isinstance(one, OutcomeUnknown) for one in failed] == [True] * 3
        assert await body_of(documents, "a") == 0
        assert (await put(documents, "a", 9)).revision == 2
        assert revisions(documents, "a") == [1, 2]


async def test_an_append_of_unknown_outcome_that_arrived_is_accepted(tmp_path: Path) -> None:
    outcomes: list[object] = []
    async with documents_in(tmp_path, outcomes=outcomes) as documents:
        await put(documents, "a", 0)
        outcomes.append((OutcomeUnknown("perhaps"),))
        written = await asyncio.gather(*(put(documents, "a", number) for number in range(1, 4)))
        assert [one.revision for one in written] == [2, 3, 4]
        assert all(one.applied for one in written)
        assert await body_of(documents, "a") == 3
        assert revisions(documents, "a") == [1, 2, 3, 4]


async def test_a_key_of_an_unknown_outcome_is_answered_once(tmp_path: Path) -> None:
    outcomes: list[object] = [(OutcomeUnknown("perhaps"),)]
    async with documents_in(tmp_path, outcomes=outcomes) as documents:
        asked = draft("post", "c~", {}, key="k")
        first = await documents.write(asked)
        again = await documents.write(asked)
        assert (again.path, again.replayed) == (first.path, True)
        assert revisions(documents, "c~") == [1]


async def test_a_store_that_fails_after_the_append_fails_nobody(tmp_path: Path) -> None:
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, settings=DocumentSettings(partitions=1, max_backlog=3)) as documents:
            await put(documents, "a", 0)
            stores.failing = True
            written = [await put(documents, "a", number) for number in range(1, 5)]
            assert [(one.revision, one.applied) for one in written] == [(2, False), (3, False), (4, False), (5, False)]
            assert await body_of(documents, "a") == 4
            assert documents.applied(0) == 1
            with pytest.raises(Busy):
                await put(documents, "a", 6)
            with pytest.raises(Unavailable):
                await documents.call_partition(0, RedriveCall())
            assert documents.status()[0].unapplied_commits > 0
            assert documents.status()[0].error == "The store does not answer."
            stores.failing = False
            assert await documents.call_partition(0, RedriveCall()) == 4
            assert documents.applied(0) == 5
            assert documents.status()[0].error == ""
            after = await put(documents, "a", 7)
            assert (after.revision, after.applied) == (6, True)


async def test_a_store_that_lets_writers_wait_is_left_alone_for_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, clock=clock, stores=stores, settings=DocumentSettings(partitions=1)) as documents:
            await put(documents, "a", 0)
            stores.failing, stores.waiting, began = True, lambda: clock.advance(5), clock.monotonic()
            assert [(await put(documents, "a", number)).applied for number in range(1, 21)] == [False] * 20
            assert clock.monotonic() == began + 5, "the first write alone has waited"
            stores.failing = False
            with pytest.raises(Unavailable):
                await documents.call_partition(0, RedriveCall())
            clock.advance(45)
            assert await documents.call_partition(0, RedriveCall()) == 20
            assert (await put(documents, "a", 21)).applied is True


async def test_what_was_known_before_a_store_failed_is_not_known_any_more(tmp_path: Path) -> None:
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, settings=DocumentSettings(partitions=1)) as documents:
            await put(documents, "a", 0)
            stores.failing = True
            assert (await put(documents, "a", 1)).applied is False
            stores.failing = False
            assert await documents.call_partition(0, RedriveCall()) == 1  # as hot recovery does
            assert (await put(documents, "a", 2)).revision == 3
            assert (await documents.write(draft("delete", "a"))).revision == 4
            assert revisions(documents, "a") == [1, 2, 3, 4]


async def test_a_store_that_fails_although_it_has_applied_leaves_no_double(tmp_path: Path) -> None:
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, settings=DocumentSettings(partitions=1)) as documents:
            await put(documents, "a", 0)
            stores.failing_after = True
            assert (await put(documents, "a", 1)).applied is False
            stores.failing_after = False
            after = await put(documents, "a", 2)
            assert (after.revision, after.applied) == (3, True)
            assert revisions(documents, "a") == [1, 2, 3]


async def test_a_partition_that_was_taken_over_is_let_go(tmp_path: Path) -> None:
    settings = DocumentSettings(partitions=1)
    async with (
        documents_in(tmp_path, settings=settings, address="http://one") as one,
        documents_in(tmp_path, settings=settings, address="http://two") as two,
    ):
        await put(one, "a", 1)
        await two.activate(0, take_over=True)
        outcomes = await asyncio.gather(*(put(one, "a", number) for number in range(5)), return_exceptions=True)
        assert all(isinstance(outcome, NotOwner) and outcome.address == "http://two" for outcome in outcomes)
        assert one.status()[0].state == "Passive"
        assert (await put(two, "a", 2)).revision == 2
        assert await body_of(one, "a") == 2
        assert one.metrics.forwarded.value == 5
        await two.release(0)
        assert (await put(one, "a", 3)).revision == 3


async def test_records_that_arrived_before_a_take_over_are_accepted(tmp_path: Path) -> None:
    outcomes: list[object] = []
    settings = DocumentSettings(partitions=1)
    async with documents_in(tmp_path, settings=settings, outcomes=outcomes) as one, documents_in(tmp_path, settings=settings) as two:
        await put(one, "a", 1)
        partition = one.opened(0)
        assert partition is not None

        class TakenOver(OutcomeUnknown):
            """Raised when the other process has claimed the partition."""

        outcomes.append((TakenOver("perhaps"),))

        def taken_over() -> object:
            two.log.claim(TOPIC, 0, part="documents")
            raise Fenced("Another process owns it.")

        partition._owned.renew = taken_over  # type: ignore[method-assign,assignment]
        assert (await put(one, "a", 2)).revision == 2
        await asyncio.sleep(0)
        assert one.status()[0].state == "Passive"
        assert await body_of(two, "a") == 2


async def test_a_log_and_a_store_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    settings = DocumentSettings(partitions=1)
    async with documents_in(tmp_path, settings=settings) as documents:
        await put(documents, "a", 1)
        await put(documents, "a", 2)
        store = documents.reads(0).store
        with store.view() as view:
            assert view.applied() == 2
        store.apply([], 9)
    async with documents_in(tmp_path, settings=settings) as documents:
        with pytest.raises(Differs, match="ends at 2"):
            await put(documents, "a", 3)
        with pytest.raises(Differs, match="ends at 2"):
            await body_of(documents, "a")
        assert documents.status()[0].state == "Passive"
        assert documents.owned() == []
    (tmp_path / "documents" / "0.db").unlink()
    async with documents_in(tmp_path, settings=settings) as documents:
        assert (await put(documents, "a", 3)).revision == 3
        partition = documents.opened(0)
        assert partition is not None
        assert partition.delete_before(2) == 2
    for file in (tmp_path / "documents").iterdir():
        file.unlink()
    async with documents_in(tmp_path, settings=settings) as documents:
        with pytest.raises(LogGap):
            await put(documents, "a", 4)


async def test_a_record_that_is_too_large_fails_alone(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", {"x": "y" * 4_000_000})
        for number in range(2):
            await documents.write(draft("patch", "a", {f"x{number}": "y" * 4_000_000}))
        outcomes = await asyncio.gather(
            documents.write(draft("patch", "a", {"z": "y" * 4_000_000})), put(documents, "b", 1), return_exceptions=True
        )
        assert isinstance(outcomes[0], TooLarge)
        assert not isinstance(outcomes[1], BaseException)
        assert (await put(documents, "a", 1)).revision == 4


async def test_definitions_and_settings_take_no_revision(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "c~/1", {"n": 1})
        made = await documents.change("c~", new_index("c~", IndexDefinition(id="n", number=0, sort_by=(SortField("n"),))))
        assert isinstance(made, ChangeRecord)
        assert made.index is not None
        number = made.index.number
        assert isinstance(await documents.change("c~", index_state("c~", number, "ready")), ChangeRecord)
        await documents.change("c~", SettingsCall("c~", lambda before: before + b'{"schema":{}}'))
        assert await documents.change("c~", SettingsCall("c~", lambda before: None)) is None
        head, _ = await documents.read(parse_path("c~"))
        assert head is not None
        assert (head.revision, head.settings) == (1, b'{"schema":{}}')
        await documents.change("c~", deleted_index("c~", "n"))
        await documents.change("c~", DroppedIndexCall("c~", number))
        assert await documents.change("c~", DroppedIndexCall("c~", number)) is None
        again = await documents.change("c~", new_index("c~", IndexDefinition(id="n", number=0)))
        assert isinstance(again, ChangeRecord)
        assert again.index is not None
        assert again.index.number > number
        assert (await put(documents, "c~/1", {"n": 2})).revision == 2


async def test_a_store_is_folded_anew(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        for number in range(5):
            await put(documents, f"c~/{number}", {"n": number})
        digest = documents.reads(0).store.digest()
        documents.reads(0).store.clear()
        assert (await put(documents, "d", 1)).applied is False  # the store was exchanged: it has too little
        assert await documents.call_partition(0, RedriveCall(rebuild=True)) == 6
        assert documents.reads(0).store.digest() != digest
        await documents.write(draft("delete", "d"))
        assert msgspec.json.decode((await documents.read(parse_path("c~/3")))[1].body) == {"id": "3", "n": 3}  # type: ignore[union-attr]


async def test_a_fold_anew_that_fails_in_the_midst_is_known_to_recovery(tmp_path: Path) -> None:
    with FlakyStores(tmp_path / "documents") as stores:
        async with documents_in(tmp_path, stores=stores, settings=DocumentSettings(partitions=1)) as documents:
            for number in range(5):
                await put(documents, "a", number)
            stores.failing = True
            with pytest.raises(Unavailable):
                await documents.call_partition(0, RedriveCall(rebuild=True))
            partition = documents.opened(0)
            assert partition is not None
            assert partition.backlog == 5
            assert await body_of(documents, "a") == 4
            stores.failing = False
            assert await documents.call_partition(0, RedriveCall()) == 5
            assert documents.applied(0) == 5
            assert (await put(documents, "a", 9)).revision == 6


async def test_a_mistake_in_one_decision_fails_that_call_alone(tmp_path: Path) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        await documents.activate(0)
        outcomes = await asyncio.gather(
            put(documents, "a", 1),
            documents.change("c~", SettingsCall("c~", lambda before: bytes(1 // len(before)))),
            put(documents, "a", 2),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], ZeroDivisionError)
        assert [one.revision for one in (outcomes[0], outcomes[2]) if not isinstance(one, BaseException)] == [1, 2]
