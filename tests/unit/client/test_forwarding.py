"""A door goes to the owner of a partition by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.unit.parts.toy import TOY, Numbers, Toy, ToyPerformer

from headwater import parts
from headwater.client.backend import Backend
from headwater.client.forwarding import ForwardingBackend
from headwater.client.local import local_log
from headwater.client.local_backend import LocalBackend
from headwater.client.remote import remote_log
from headwater.core.clock import SystemClock
from headwater.core.errors import NotOwner, Unreachable
from headwater.core.settings import Settings
from headwater.testing.app import app_over
from headwater.testing.scripted import served

pytestmark = pytest.mark.anyio
HERE, THERE, ELSEWHERE = "http://here", "http://there", "http://elsewhere"


class Somewhere:
    """Processes by their address, each a server over a log of its own, and who of them owns what the toy counts."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder, self._stack, self._urls = folder, stack, dict[str, str]()
        self.owner, self.asked, self.dead = "", list[str](), set[str]()

    def process(self, address: str) -> LocalBackend:
        log = local_log(Settings(), self._folder / address.rpartition("/")[2], SystemClock())
        self._stack.push_async_callback(log.aclose)
        return LocalBackend(log, performers={"toy": OwnedToy(self, address)})

    async def start(self, address: str) -> None:
        """A server that is known by this address."""
        log = local_log(Settings(), self._folder / address.rpartition("/")[2], SystemClock())
        self._stack.push_async_callback(log.aclose)
        app = app_over(log, performers={"toy": OwnedToy(self, address)})
        self._urls[address] = await self._stack.enter_async_context(served(app))

    def connect(self, address: str) -> Backend:
        url = "http://127.0.0.1:1" if address in self.dead else self._urls[address]
        return remote_log(url, token=None, clock=SystemClock()).backend


class OwnedToy(ToyPerformer):
    def __init__(self, somewhere: Somewhere, address: str) -> None:
        super().__init__(settings=Settings())
        self._somewhere, self._address = somewhere, address

    def _check(self) -> None:
        self._somewhere.asked.append(self._address)
        if self._somewhere.owner != self._address:
            raise NotOwner("It is owned by another.", address=self._somewhere.owner, hint="If it has died, try again.")

    def perform(self, log: object, operation: Any, request: Any, who: str) -> Numbers:
        self._check()
        return super().perform(log, operation, request, who)

    async def stream(self, operation: Any, request: Any) -> AsyncIterator[int]:
        self._check()
        async for item in super().stream(operation, request):
            yield item


@pytest.fixture
async def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Somewhere]:
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, TOY))
    async with AsyncExitStack() as stack:
        made = Somewhere(tmp_path, stack)
        for address in (HERE, THERE, ELSEWHERE):
            await made.start(address)
        yield made


def toy(somewhere: Somewhere, near: Backend) -> Toy:
    backend = ForwardingBackend(near, connect=somewhere.connect)
    somewhere._stack.push_async_callback(backend.aclose)
    return Toy(backend)


@pytest.mark.parametrize("near", ["directory", "server"])
async def test_what_another_owns_is_asked_there(somewhere: Somewhere, near: str) -> None:
    somewhere.owner = THERE
    offered = toy(somewhere, somewhere.process(HERE) if near == "directory" else somewhere.connect(HERE))
    assert await offered.numbers(3) == Numbers([3, 2, 1])
    assert [number async for number in offered.follow(3)] == [3, 2, 1]
    assert somewhere.asked == [HERE, THERE, HERE, THERE]


async def test_a_job_that_is_not_the_owners_says_where_to_go(somewhere: Somewhere) -> None:
    """It has begun before it is known who may do it."""
    somewhere.owner = THERE
    for near in (somewhere.process(HERE), somewhere.connect(HERE)):
        job = await toy(somewhere, near).slowly(2)
        with pytest.raises(NotOwner) as caught:
            await job.result()
        assert caught.value.address == THERE


async def test_what_this_process_owns_is_asked_nowhere_else(somewhere: Somewhere) -> None:
    somewhere.owner = HERE
    offered = toy(somewhere, somewhere.process(HERE))
    assert await offered.numbers(1) == Numbers([1])
    assert [number async for number in offered.follow(0)] == []
    assert somewhere.asked == [HERE, HERE]


async def test_an_owner_without_an_address_is_told(somewhere: Somewhere) -> None:
    with pytest.raises(NotOwner):
        await toy(somewhere, somewhere.process(HERE)).numbers(1)
    assert somewhere.asked == [HERE]


async def test_when_the_owner_is_dead_this_process_is_asked_once_more(somewhere: Somewhere) -> None:
    somewhere.owner, somewhere.dead = THERE, {THERE}
    offered = toy(somewhere, somewhere.process(HERE))
    with pytest.raises(Unreachable, match=r"^It is owned by another\. No headwater server answers at ") as caught:
        await offered.numbers(1)
    assert caught.value.hint == "If it has died, try again."
    assert somewhere.asked == [HERE, HERE]


async def test_nobody_is_sent_around_for_ever(somewhere: Somewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    def passed_on(self: OwnedToy) -> None:
        somewhere.asked.append(self._address)
        raise NotOwner("Not here.", address=ELSEWHERE if self._address == THERE else THERE)

    monkeypatch.setattr(OwnedToy, "_check", passed_on)
    with pytest.raises(NotOwner):
        await toy(somewhere, somewhere.process(HERE)).numbers(1)
    assert len(somewhere.asked) == 4
