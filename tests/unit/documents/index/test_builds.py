"""Builds of a process: each index once, those of before, and how far they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
from tests.unit.documents.index.test_build import Ground

from headwater.documents.change import IndexDefinition, SortField
from headwater.documents.index.builds import IndexBuilds, building
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.testing.clock import ManualClock


def test_builds_of_before_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        with SqliteDocumentStores(tmp_path) as stores:
            ground = Ground(stores.partition(0, "g"))
            for uri in ("a~", "b~", "c~"):
                ground.history.put(uri, "1", p=1)
                for number in (1, 2):
                    ground.history.set_index(uri, IndexDefinition(id=f"i{number}", number=number, sort_by=(SortField("p"),)))
            ground.history.set_index("c~", msgspec.structs.replace(ground.history.indexes["c~"][1], state="failed"))
            ground.history.put("d", p=1)
            ground.apply()
            assert [(uri, index.number) for uri, index in building(ground.store)] == [("a~", 1), ("a~", 2), ("b~", 1), ("b~", 2), ("c~", 2)]
            builds = IndexBuilds(ground, clock=ManualClock(), most=2)
            await builds.look(ground.store)
            assert builds.progress("a~", 1) is not None
            builds.begin(ground.store, "a~", ground.history.indexes["a~"][1])
            await builds.wait()
            assert [index.state for index in ground.recorded] == ["ready"] * 5
            assert building(ground.store) == []
            assert builds.progress("a~", 1) is None
            await builds.stop()
            await builds.stop()

    asyncio.run(scenario())


def test_stopping_cancels_builds(tmp_path: Path) -> None:
    async def scenario() -> None:
        with SqliteDocumentStores(tmp_path) as stores:
            ground = Ground(stores.partition(0, "g"))
            later = IndexDefinition(id="i", number=1)  # which the store does not have: the build waits
            builds = IndexBuilds(ground, clock=ManualClock())
            builds.begin(ground.store, "c~", later)
            await asyncio.sleep(0)
            await builds.stop()
            assert builds.progress("c~", 1) is None

    asyncio.run(scenario())
