"""Builds of indexes: every row once, beside writes, over interruptions and outages; by slices here, and by shards of others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.documents.index.shards_here import RunHere, ShardsHere

from headwater.core.document_errors import UnknownIndex
from headwater.core.errors import Closed, Damaged, Unavailable
from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index import build
from headwater.documents.index.build import IndexBuild, build_slice
from headwater.documents.index.shard import ShardRows, add_shard, cut_shards, index_shard
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore, IndexRow
from headwater.testing.clock import ManualClock
from headwater.testing.document_history import RecordedDocuments

INDEX = IndexDefinition(id="i", number=9, sort_by=(SortField("p", "asc", "decimal"),), filter_by="p is not null")


class Ground:
    """A store that follows a history, and records definitions in it. `before`: called before each record."""

    def __init__(self, store: DocumentStore) -> None:
        self.history, self.store = RecordedDocuments(), store
        self.applied = 0
        self.recorded: list[IndexDefinition] = []
        self.before: Callable[[], None] = lambda: None
        self.shards: ShardsHere | None = None

    def apply(self) -> None:
        self.store.apply([record for record in self.history.records if record.offset >= self.applied], self.history.end)
        self.applied = self.history.end

    async def change_index(self, uri: str, number: int, change: Callable[[IndexDefinition], IndexDefinition]) -> bool:
        self.before()
        there = self.history.indexes.get(uri, {}).get(number)
        if there is None or there.state == "deleting":
            return False
        self.history.set_index(uri, change(there))
        self.recorded.append(self.history.indexes[uri][number])
        self.apply()
        return True

    def rows(self) -> list[IndexRow]:
        with self.store.view() as view:
            return view.index_rows("c~", 9, limit=100_000)

    def definition(self) -> IndexDefinition:
        return self.history.indexes["c~"][9]


@pytest.fixture(params=["slices", "shards"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    with SqliteDocumentStores(tmp_path) as stores:
        made = Ground(stores.partition(0, "g"))
        made.shards = ShardsHere() if request.param == "shards" else None
        for number in range(50):
            made.history.put("c~", f"{number:03d}", p=number % 7 if number % 5 else None, q=number)
        made.history.put("c~", "text", p="x")
        made.history.set_index("c~", INDEX)
        made.apply()
        yield made
        if made.shards is not None:
            assert all(run.closed for run in made.shards.runs)


def a_build(ground: Ground, clock: ManualClock | None = None) -> IndexBuild:
    return IndexBuild(ground.store, ground, uri="c~", index=ground.definition(), clock=clock or ManualClock(), shards=ground.shards)


def test_every_item_gets_its_row(ground: Ground) -> None:
    made = a_build(ground)
    assert asyncio.run(made.run())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert ground.definition() == msgspec.structs.replace(INDEX, state="ready", rows=41, unlike=1)
    with ground.store.view() as view:
        ground.history.check(view)


def test_writes_between_shards_are_never_undone(ground: Ground) -> None:
    """Also where the rows of a shard were made long before they are added."""
    generator = random.Random(3)

    def write() -> None:
        for _ in range(5):
            item = f"{generator.randrange(60):03d}"
            if generator.random() < 0.3 and item in ground.history.rows["c~"]:
                ground.history.delete("c~", item)
            else:
                ground.history.put("c~", item, p=generator.randrange(9), q=1)
        ground.apply()

    made = [index_shard(ground.store, shard) for shard in cut_shards(ground.store, "c~", 9, after="", limit=9, each=8)]
    for one in made:
        write()
        assert add_shard(ground.store, "c~", 9, one) is not None
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_shards_that_are_not_taken_any_more_are_built_here(ground: Ground) -> None:
    """The process that works them off dies in the middle."""

    class Dying(ShardsHere):
        async def begin(self, store: DocumentStore, uri: str, number: int, after: str) -> RunHere | None:
            run = await super().begin(store, uri, number, after)
            assert run is not None
            shards, next_shard = iter([True, True, False]), run.next

            async def some(after: str) -> ShardRows | None:
                return await next_shard(after) if next(shards) else None

            run.next = some  # type: ignore[method-assign]
            return run

    ground.shards = Dying()
    assert asyncio.run(a_build(ground).run())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert [index.built for index in ground.recorded] == ["009", "019", ""]
    assert ground.definition().rows == 41


def test_writes_between_slices_are_never_undone(ground: Ground) -> None:
    generator = random.Random(3)
    after, done = "", False
    while not done:
        built = build_slice(ground.store, "c~", 9, after=after, limit=3)
        assert built is not None
        after, done = built.last, built.done
        for _ in range(3):
            item = f"{generator.randrange(60):03d}"
            if generator.random() < 0.3 and item in ground.history.rows["c~"]:
                ground.history.delete("c~", item)
            else:
                ground.history.put("c~", item, p=generator.randrange(9), q=1)
        ground.apply()
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_a_write_between_reading_and_adding_a_slice_counts(ground: Ground) -> None:
    class Racing:
        """Changes an item after the rows of a slice were read, and before they are added."""

        def view(self) -> Any:
            return ground.store.view()

        def add_index_rows(self, *given: Any, **named: Any) -> None:
            ground.history.put("c~", "001", p=100)
            ground.history.delete("c~", "002")
            ground.apply()
            ground.store.add_index_rows(*given, **named)

    build_slice(Racing(), "c~", 9)  # type: ignore[arg-type]
    assert ground.rows() == ground.history.index_rows("c~", 9)


def test_an_interrupted_build_goes_on_where_it_was(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_RECORDED", 1)
    monkeypatch.setattr(build.build_slice, "__kwdefaults__", {"after": "", "limit": 10})
    before = ground.change_index

    async def dies(uri: str, number: int, change: Any) -> bool:
        if len(ground.recorded) == 2:
            raise Closed("The process ends.")
        return await before(uri, number, change)

    monkeypatch.setattr(ground, "change_index", dies)
    assert not asyncio.run(a_build(ground).run())
    assert ground.definition().built == "019"
    assert ground.definition().state == "building"
    monkeypatch.setattr(ground, "change_index", before)
    again = a_build(ground)
    assert again.built == "019"
    assert asyncio.run(again.run())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert ground.definition() == msgspec.structs.replace(INDEX, state="ready", rows=41, unlike=1)


def test_a_build_begins_anew_in_a_store_that_was_folded_anew(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records say how far it was, and the rows that it had added are in none of them."""
    monkeypatch.setattr(build, "SLICE", 10)
    first = build_slice(ground.store, "c~", 9, limit=10)
    assert first is not None
    ground.history.set_index("c~", msgspec.structs.replace(INDEX, built=first.last, rows=first.rows))
    ground.store.clear()
    ground.applied = 0
    ground.apply()
    assert asyncio.run(a_build(ground).run())
    assert ground.rows() == ground.history.index_rows("c~", 9)
    assert ground.definition().rows == 41


def test_a_store_that_is_away_is_waited_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        away = iter([True, True, False])

        def add(*given: Any, **named: Any) -> None:
            if next(away, False):
                raise Unavailable("The store is away.")
            DocumentStoreAdd(*given, **named)

        DocumentStoreAdd = ground.store.add_index_rows  # noqa: N806
        monkeypatch.setattr(type(ground.store), "add_index_rows", lambda self, *given, **named: add(*given, **named))
        task = asyncio.create_task(a_build(ground, clock).run())
        while not task.done():
            await clock.run(15)
        assert await task
        assert ground.definition().state == "ready"

    asyncio.run(scenario())


def test_a_build_that_cannot_go_on_fails_and_says_why(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise Damaged("The file is damaged.", hint="Mend it.")

    monkeypatch.setattr(type(ground.store), "add_index_rows", broken)
    assert not asyncio.run(a_build(ground).run())
    assert (ground.definition().state, ground.definition().error) == ("failed", "The file is damaged. Mend it.")


def test_an_index_that_is_dropped_meanwhile_is_left(ground: Ground) -> None:
    made = a_build(ground)
    ground.history.set_index("c~", msgspec.structs.replace(INDEX, state="deleting"))
    ground.apply()
    assert not asyncio.run(made.run())
    assert ground.recorded == []


def test_an_index_that_the_store_does_not_have_yet_is_waited_for(ground: Ground) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        later = msgspec.structs.replace(INDEX, number=10)
        ground.history.set_index("c~", later)
        task = asyncio.create_task(IndexBuild(ground.store, ground, uri="c~", index=later, clock=clock, shards=ground.shards).run())
        await clock.run(15)
        assert not task.done()
        ground.apply()
        while not task.done():
            await clock.run(15)
        assert await task

    asyncio.run(scenario())
    with pytest.raises(UnknownIndex):
        build_slice(ground.store, "c~", 99)
