"""Two ends in one process: what a call gets, and what it is told when the other end is away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.cluster import forward
from headwater.cluster.forward import ForwardClient, ForwardServer
from headwater.core.clock import SystemClock
from headwater.core.errors import Busy, Closed, OutcomeUnknown, Unavailable
from headwater.core.unix_socket import listen_unix
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio


class Owner:
    """Answers with what it was asked, twice; what begins with `wait` waits until it may."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.may = asyncio.Event()

    async def __call__(self, payload: bytes) -> bytes:
        self.asked.append(payload)
        if payload.startswith(b"wait"):
            await self.may.wait()
        if payload == b"bug":
            raise ValueError("a mistake")
        return payload * 2


@asynccontextmanager
async def served(path: Path, owner: Owner) -> AsyncIterator[ForwardServer]:
    server = ForwardServer(lambda payload: asyncio.ensure_future(owner(payload)), clock=SystemClock())
    await server.listen(path)
    try:
        yield server
    finally:
        await server.aclose(patience=0)


@asynccontextmanager
async def calling(path: Path, *, patience: float = 60.0) -> AsyncIterator[ForwardClient]:
    client = ForwardClient(path, clock=SystemClock(), patience=patience)
    try:
        yield client
    finally:
        await client.aclose()


async def test_many_calls_of_any_size_get_their_own_answers_in_any_order(tmp_path: Path) -> None:
    path, owner = tmp_path / ("d" * 120) / "0.sock", Owner()  # longer than an address
    path.parent.mkdir()
    async with served(path, owner), calling(path) as client:
        sizes = [0, 1, 11, 12, 13, 1 << 10, 1 << 16, (3 << 20) + 1]
        payloads = [os.urandom(size) for size in sizes] + [b"%d" % number for number in range(500)]
        late = asyncio.ensure_future(client.call(b"wait"))
        assert await asyncio.gather(*map(client.call, payloads)) == [payload * 2 for payload in payloads]
        assert not late.done()
        owner.may.set()
        assert await late == b"waitwait"


async def test_calls_arrive_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    owner = Owner()
    async with calling(tmp_path / "0.sock") as client:
        calls = [asyncio.ensure_future(client.call(b"%d" % number)) for number in range(100)]  # before anybody listens
        await asyncio.sleep(0)
        async with served(tmp_path / "0.sock", owner):
            await asyncio.gather(*calls)
            assert owner.asked == [b"%d" % number for number in range(100)]


async def test_a_caller_that_gives_up_disturbs_nobody(tmp_path: Path) -> None:
    owner = Owner()
    async with served(tmp_path / "0.sock", owner), calling(tmp_path / "0.sock") as client:
        given_up = asyncio.ensure_future(client.call(b"wait"))
        assert await client.call(b"a") == b"aa"
        given_up.cancel()
        owner.may.set()
        assert await client.call(b"b") == b"bb"


async def test_an_owner_that_ends_leaves_the_outcome_unknown_and_its_successor_answers(tmp_path: Path) -> None:
    owner = Owner()
    async with calling(tmp_path / "0.sock") as client:
        async with served(tmp_path / "0.sock", owner):
            assert await client.call(b"a") == b"aa"
            lost = asyncio.ensure_future(client.call(b"bug"))
            with pytest.raises(OutcomeUnknown, match="may have been done"):
                await lost
        early = asyncio.ensure_future(client.call(b"b"))  # while nobody is there
        await asyncio.sleep(0)
        async with served(tmp_path / "0.sock", Owner()):
            assert await early == b"bb"


async def test_a_call_that_may_be_made_twice_is_sent_again_to_whoever_takes_the_place_of_a_dead_process(tmp_path: Path) -> None:
    owner = Owner()
    async with served(tmp_path / "0.sock", owner), calling(tmp_path / "0.sock") as client:
        for again, calls in ((True, 2), (False, 1)):
            owner.asked.clear()
            with pytest.raises(OutcomeUnknown, match="ended before"):
                await client.call(b"bug", again=again)
            assert owner.asked == [b"bug"] * calls
        assert await client.call(b"a") == b"aa"


@pytest.mark.parametrize("again", [False, True])
async def test_a_process_that_hangs_leaves_the_outcome_unknown_after_a_while(tmp_path: Path, again: bool) -> None:
    """It has the call, and may do it later."""
    owner, clock = Owner(), ManualClock()
    client = ForwardClient(tmp_path / "0.sock", clock=clock)
    async with served(tmp_path / "0.sock", owner):
        late = asyncio.ensure_future(client.call(b"wait", patience=45.0, again=again))
        later = asyncio.ensure_future(client.call(b"wait later"))
        assert await client.call(b"a", patience=45.0) == b"aa"
        await clock.run(44.0)
        assert not late.done()
        second = asyncio.ensure_future(client.call(b"wait too", patience=45.0, again=again))
        await clock.run(2.0)
        with pytest.raises(OutcomeUnknown, match="does not answer"):
            await late
        assert not second.done()
        assert not later.done()
        owner.may.set()
        assert await second == b"wait toowait too", "the others go on, and so does the connection"
        assert await later == b"wait laterwait later"
        assert await client.call(b"b", patience=45.0) == b"bb"
        await client.aclose()


async def test_nobody_there_for_long_is_unavailable_and_nothing_was_sent(tmp_path: Path) -> None:
    clock = ManualClock()
    client = ForwardClient(tmp_path / "0.sock", clock=clock, patience=1.0)
    left = listen_unix(tmp_path, "0.sock")  # the socket of a dead process
    assert left is not None
    left.close()
    call = asyncio.ensure_future(client.call(b"a"))
    while not call.done():
        await asyncio.sleep(0)
        clock.advance(100)
    with pytest.raises(Unavailable, match="being started"):
        await call
    await client.aclose()


async def test_no_more_than_so_many_wait_for_an_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_MOST", 2)
    client = ForwardClient(tmp_path / "0.sock", clock=ManualClock())
    calls = [asyncio.ensure_future(client.call(b"a")) for _ in range(3)]
    done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(Busy):
        done.pop().result()
    await client.aclose()
    with pytest.raises(Closed):
        await client.call(b"a")
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_closing_answers_what_is_under_way_and_those_who_have_not_left(tmp_path: Path) -> None:
    owner = Owner()
    server = ForwardServer(lambda payload: asyncio.ensure_future(owner(payload)), clock=SystemClock())
    await server.listen(tmp_path / "0.sock")
    async with calling(tmp_path / "0.sock") as client:
        waits = asyncio.ensure_future(client.call(b"wait"))
        assert await client.call(b"a") == b"aa"
        closing = asyncio.ensure_future(server.aclose(patience=60))
        await asyncio.sleep(0)
        assert await client.call(b"b") == b"bb"
        owner.may.set()
        assert await waits == b"waitwait"
    await closing  # as soon as the caller has left
    await server.aclose()


async def test_a_folder_that_is_no_place_for_sockets_is_told(tmp_path: Path) -> None:
    (tmp_path / "0.sock").write_text("somebody's")
    with pytest.raises(Unavailable, match="Nobody can listen"):
        await ForwardServer(lambda payload: asyncio.ensure_future(Owner()(payload)), clock=SystemClock()).listen(tmp_path / "0.sock")


async def test_a_call_on_a_connection_that_has_ended_meanwhile_is_told_that_nothing_was_sent(tmp_path: Path) -> None:
    """As of a caller that waited for the connection, and goes on after its end."""
    owner = Owner()
    async with served(tmp_path / "0.sock", owner), calling(tmp_path / "0.sock") as client:
        connection = await client._connected()
        connection.close()
        with pytest.raises(Unavailable, match="ended"):
            connection.ask(b"a", None)
        assert await client.call(b"b") == b"bb"
    assert owner.asked == [b"b"]
