from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import NotOwner, UnknownQueue
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue.catalogue import Catalogue
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry, encode_deletion, encode_entry
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings

pytestmark = pytest.mark.anyio
Make = Callable[..., Catalogue]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes the catalogue of one more process over the same directory."""
    made: list[tuple[RegionManager, LocalOwnership]] = []
    with EmbeddedLog(tmp_path) as log:

        def catalogue(*, keeps: bool = False, address: str = "") -> Catalogue:
            owners = LocalOwnership(log, tmp_path / "owners", address=address)
            regions = RegionManager(
                log, lambda: owners, "queue", settings=WalSettings(), clock=ManualClock(), random=Random(1), metrics=WalMetrics()
            )
            made.append((regions, owners))
            return Catalogue(log, regions, keeps=keeps)

        yield catalogue
        for regions, owners in made:
            await regions.aclose()
            owners.close()


async def add(catalogue: Catalogue, name: str) -> QueueEntry:
    async def decide(fold: CatalogueFold) -> tuple[Sequence[bytes], QueueEntry]:
        await asyncio.sleep(0)  # as where a region is made
        entry = QueueEntry(name=name, region=fold.next_table, table=fold.next_table)
        return [encode_entry(entry)], entry

    return await catalogue.change(decide)


async def remove(catalogue: Catalogue, name: str) -> None:
    async def decide(fold: CatalogueFold) -> tuple[Sequence[bytes], None]:
        return [encode_deletion(name)], None

    await catalogue.change(decide)


async def names(catalogue: Catalogue) -> list[str]:
    return [entry.name for entry in await catalogue.entries()]


async def test_a_directory_without_queues_is_looked_at_and_nothing_is_made(make: Make) -> None:
    catalogue = make()
    assert await catalogue.entries() == []
    assert await catalogue.find("pages") is None
    with pytest.raises(UnknownQueue, match="headwater queue create pages"):
        await catalogue.entry("pages")
    assert catalogue._log.topics() == []


async def test_what_is_changed_is_seen_by_every_process(make: Make) -> None:
    first, second = make(), make()
    pages = await add(first, "pages")
    assert await names(second) == ["pages"]
    assert await second.entry("pages") == pages
    await add(second, "mail")  # the first one has let go of it
    await remove(first, "pages")
    assert await names(first) == await names(second) == ["mail"]
    with pytest.raises(UnknownQueue, match="Did you mean mail"):
        await second.entry("mails")


async def test_one_that_serves_stays_the_owner_and_the_others_learn_its_address(make: Make) -> None:
    server, other = make(keeps=True, address="http://here:1"), make()
    await add(server, "pages")
    with pytest.raises(NotOwner) as refused:
        await add(other, "mail")
    assert refused.value.address == "http://here:1"
    assert await names(other) == ["pages"]
    await add(server, "mail")
    assert await names(other) == ["mail", "pages"]


async def test_changes_of_one_process_come_one_after_the_other(make: Make) -> None:
    catalogue = make()
    made = await asyncio.gather(*(add(catalogue, f"q{number}") for number in range(8)))
    assert sorted(entry.table for entry in made) == list(range(1, 9))


async def test_a_decision_that_raises_or_writes_nothing_changes_nothing(make: Make) -> None:
    catalogue = make()

    async def refuses(fold: CatalogueFold) -> tuple[Sequence[bytes], None]:
        raise UnknownQueue("No.", hint="Never.")

    async def sees(fold: CatalogueFold) -> tuple[Sequence[bytes], list[str]]:
        return [], sorted(fold.entries)

    await add(catalogue, "pages")
    end = catalogue._log.bounds(catalogue.topics.data, 0).end
    with pytest.raises(UnknownQueue):
        await catalogue.change(refuses)
    assert await catalogue.change(sees) == ["pages"]
    assert catalogue._log.bounds(catalogue.topics.data, 0).end == end


async def test_outdated_records_are_forgotten(make: Make) -> None:
    catalogue, other = make(keeps=True), make()
    await add(catalogue, "stays")
    for number in range(100):
        await add(catalogue, f"q{number}")
        await remove(catalogue, f"q{number}")
    region = catalogue._regions.opened(0)
    assert region is not None
    assert region.look(lambda meta: meta.live) < 80
    assert await names(other) == ["stays"]
    assert (await add(catalogue, "next")).table == 102


async def test_a_look_beside_an_owner_that_carries_and_cleans_sees_one_moment(make: Make) -> None:
    catalogue, other = make(keeps=True), make()
    await add(catalogue, "stays")

    async def changes() -> None:
        for number in range(60):
            await add(catalogue, f"q{number}")
            await remove(catalogue, f"q{number}")
            await catalogue._regions.clean(0)

    changing = asyncio.create_task(changes())
    while not changing.done():
        assert "stays" in await names(other)
    await changing
