"""Two workers in one process, each with a log and stores of its own over the same directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.documents.ground import body_of, documents_in, draft, put
from tests.until import until

from headwater.client.document_care import DocumentCare
from headwater.cluster.forward import ForwardClient, ForwardServer
from headwater.core.clock import SystemClock
from headwater.core.errors import KeyReused, NotOwner, OutcomeUnknown
from headwater.documents.follow_requests import ListDocumentPartitions
from headwater.documents.forwarded_calls import ForwardedCalls
from headwater.documents.homes import PartitionHomes, RemoteHome
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.write import BatchDraft
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def worker(folder: Path, slot: int) -> AsyncIterator[OpenDocuments]:
    """One of two: partition p is that of worker p."""
    async with documents_in(folder) as documents:

        async def opened() -> OpenDocuments:
            return documents

        server = ForwardServer(ForwardedCalls(opened).answer, clock=SystemClock())
        await server.listen(folder / f"{slot}.sock")
        other = RemoteHome(ForwardClient(folder / f"{1 - slot}.sock", clock=SystemClock()))
        documents.homes = PartitionHomes({1 - slot: other}, lambda partition: partition)
        try:
            yield documents
        finally:
            await documents.homes.aclose()
            await server.aclose(patience=0)


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[list[OpenDocuments]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(worker(folder, slot)) for slot in range(2)]


NAMES = [f"d{number}" for number in range(12)]


async def test_each_worker_writes_what_is_its_own_and_both_read_everything(tmp_path: Path) -> None:
    async with two(tmp_path) as workers:
        for count, name in enumerate(NAMES * 3):
            written = await put(workers[count % 2], name, {"count": count})
            assert written.revision == count // len(NAMES) + 1
            assert await body_of(workers[(count + 1) % 2], name) == {"count": count}  # at once, in the other one
        homes = {workers[0].partition_of(name) for name in NAMES}
        assert homes == {0, 1}
        assert [one.owned() for one in workers] == [[0], [1]]
        assert [[standing.partition for standing in one.status()] for one in workers] == [[0], [1]]
        assert [(await workers[0].standing(number)).state for number in range(2)] == ["Active", "Active"]


async def test_writers_at_both_make_revisions_without_gaps(tmp_path: Path) -> None:
    async with two(tmp_path) as workers:
        written = await asyncio.gather(*(put(workers[count % 2], "a", count) for count in range(50)))
        assert sorted(one.revision for one in written) == list(range(1, 51))


async def test_errors_batches_and_rebuilds_are_those_of_the_home(tmp_path: Path) -> None:
    async with two(tmp_path) as workers:
        uri = "c~"
        away = workers[1 - (await workers[0].create() and workers[0].partition_of(uri))]
        batch = BatchDraft(uri=uri, drafts=tuple(draft("put", f"c~/{count}", {}) for count in range(3)), key="k")
        first = await away.write_batch(batch)
        assert [one.path.text for one in first] == ["c~/0", "c~/1", "c~/2"]
        assert [one.replayed for one in await away.write_batch(batch)] == [True] * 3
        with pytest.raises(KeyReused):
            await away.write_batch(BatchDraft(uri=uri, drafts=(draft("put", "c~/9", {}),), key="k"))
        number = away.partition_of(uri)
        await away.rebuild(number)
        with away.view(uri) as view:
            assert len(view.rows(uri, limit=10)) == 3
        with pytest.raises(NotOwner, match="another worker"):
            await away.activate(number)


class Once:
    """A home that ends under the first call, after it was done or before: its connection ends."""

    def __init__(self, home: OpenDocuments, *, done: bool) -> None:
        self._home, self._done, self.calls = home, done, 0

    def answer(self, payload: bytes) -> asyncio.Future[bytes]:
        return asyncio.ensure_future(self._answer(payload))

    async def _answer(self, payload: bytes) -> bytes:
        self.calls += 1

        async def opened() -> OpenDocuments:
            return self._home

        if self.calls == 1:
            if self._done:
                await ForwardedCalls(opened).answer(payload)
            raise RuntimeError("it ended")
        return await ForwardedCalls(opened).answer(payload)


@pytest.mark.parametrize("done", [True, False])
async def test_only_a_write_with_a_key_is_sent_again_and_it_is_done_once(tmp_path: Path, done: bool) -> None:
    async with documents_in(tmp_path) as documents:
        for key in ("k", ""):
            home = Once(documents, done=done)
            server = ForwardServer(home.answer, clock=SystemClock())
            await server.listen(tmp_path / "0.sock")
            other = RemoteHome(ForwardClient(tmp_path / "0.sock", clock=SystemClock()))
            if key:
                written = await other.write(draft("put", "a", 1, key=key))
                assert (written.revision, written.replayed, home.calls) == (1, done, 2)
            else:
                with pytest.raises(OutcomeUnknown):
                    await other.write(draft("put", "b", 1))
                assert home.calls == 1
                assert ((await documents.read(parse_path("b")))[0] is not None) == done
            await other.aclose()
            await server.aclose(patience=0)


async def test_a_home_that_hangs_is_waited_for_no_longer_than_its_calls_may_take(tmp_path: Path) -> None:
    never, clock = asyncio.get_running_loop().create_future(), ManualClock()
    server = ForwardServer(lambda payload: asyncio.shield(never), clock=SystemClock())
    await server.listen(tmp_path / "0.sock")
    other = RemoteHome(ForwardClient(tmp_path / "0.sock", clock=clock))
    write = asyncio.ensure_future(other.write(draft("put", "a", 1, key="k")))
    look, rebuild = asyncio.ensure_future(other.standing(0)), asyncio.ensure_future(other.rebuild(0))
    await until(lambda: bool(server._connections) and len(next(iter(server._connections)).under_way) == 3)
    for seconds, late in ((6.0, look), (45.0, write)):
        await clock.run(seconds)
        with pytest.raises(OutcomeUnknown):
            await late
    await clock.run(10_000.0)
    assert not rebuild.done(), "it takes as long as it takes"
    never.set_result(b"")
    await other.aclose()
    await asyncio.gather(rebuild, return_exceptions=True)
    await server.aclose(patience=0)


async def test_a_worker_that_is_gone_leaves_the_state_of_its_partitions_unknown(tmp_path: Path) -> None:
    async with documents_in(tmp_path) as documents:
        await put(documents, "a", 1)
        gone = RemoteHome(ForwardClient(tmp_path / "none.sock", clock=SystemClock(), patience=0.0))
        documents.homes = PartitionHomes({1: gone}, lambda partition: partition)

        async def opened() -> OpenDocuments:
            return documents

        care = DocumentCare(opened, "sqlite", lambda number: None)
        states = [one.state for one in (await care.status(ListDocumentPartitions())).partitions]
        assert states[1] == "Unknown"
        assert states[0] in ("Active", "Passive")
        await documents.homes.aclose()
        documents.homes = None


def test_what_is_this_workers_own_has_no_other_home() -> None:
    homes = PartitionHomes({1: RemoteHome(None)}, lambda partition: partition % 2)  # type: ignore[arg-type]
    assert homes.other(2) is None
    assert homes.other(3) is not None
