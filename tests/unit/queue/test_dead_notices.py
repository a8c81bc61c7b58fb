"""Dead rows are told to the address of the setting `on_dead`: each at least once, whatever fails, and nothing waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.queue.conftest import OpenQueue

from headwater.core.errors import Unavailable
from headwater.queue.dead_notices import shown_address
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock

pytestmark = pytest.mark.anyio
ADDRESS = "https://ops.example/dead"


class Address:
    """Takes notices, or refuses those of some keys."""

    def __init__(self, *refused: str) -> None:
        self.refused, self.tried, self.taken = set(refused), list[tuple[str, str]](), list[dict[str, Any]]()
        self.names = list[str]()

    async def post(self, address: str, document: bytes, name: str) -> None:
        notice = json.loads(document)
        key = notice["row"]["key"]
        self.tried.append((address, key))
        await asyncio.sleep(0)
        if key in self.refused or "all" in self.refused:
            raise Unavailable("refused")
        self.taken.append(notice)
        self.names.append(name)

    def keys(self) -> list[str]:
        return [notice["row"]["key"] for notice in self.taken]


async def die(queue: Queue, *keys: str) -> None:
    await queue.put([NewRow(key=key.encode(), data=b'{"n":1}') for key in keys])
    claims = (await queue.claim(len(keys), worker="w")).claims
    await queue.fail([FailedClaim(claim.token, "no such page", give_up=True) for claim in claims])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.0001)


async def test_each_dead_row_is_told_once_also_behind_a_restart(opened: OpenQueue) -> None:
    address = Address()
    queue = await opened(address.post, on_dead=ADDRESS)
    await die(queue, "a", "b")
    await until(lambda: queue.statistics().told == 2)
    first = address.taken[0]
    assert (first["event"], first["queue"], first["row"]["reason"], first["row"]["error"]) == ("dead", "pages", "given-up", "no such page")
    assert (first["row"]["data"], first["row"]["worker"]) == ({"n": 1}, "w")
    assert len(set(address.names)) == 2
    assert [dead.row.key for dead in await queue.dead_list()] == [b"a", b"b"]
    queue = await opened(address.post, on_dead=ADDRESS)
    await die(queue, "c")
    await until(lambda: len(address.taken) >= 3)
    assert address.keys() == ["a", "b", "c"]
    assert (await queue.dead_list())[0].worker == "w"


async def test_an_address_that_fails_stops_nothing_and_is_tried_again_ever_less_often(opened: OpenQueue, clock: ManualClock) -> None:
    address = Address("a")
    queue = await opened(address.post, on_dead=ADDRESS)
    await die(queue, "a")
    await until(lambda: queue.statistics().failed_notices == 1)
    await die(queue, "b")
    assert await queue.put([NewRow(key=b"more")])
    for number, waits in enumerate((1, 2, 1, 2), 1):  # a success begins anew
        clock.advance(waits - 0.001)
        for _ in range(50):
            await asyncio.sleep(0)
        assert queue.statistics().failed_notices == number, "too early"
        clock.advance(0.001)
        await until(lambda number=number: queue.statistics().failed_notices > number)  # type: ignore[misc]
    assert address.keys() == ["b"], "another row does not wait for one that is refused"
    assert (queue.statistics().told, queue.statistics().failed_notices) == (1, 5)


async def test_what_was_not_told_is_told_after_a_restart_and_by_another_address_at_once(opened: OpenQueue, clock: ManualClock) -> None:
    address = Address("all")
    queue = await opened(address.post, on_dead=ADDRESS)
    await die(queue, "a")
    await until(lambda: len(address.tried) == 1)
    queue = await opened(address.post, on_dead=ADDRESS)
    await until(lambda: len(address.tried) == 2)
    address.refused.clear()
    queue.change_settings(EffectiveSettings(on_dead="http://other.example"))
    await until(lambda: len(address.taken) == 1)
    assert address.tried[-1] == ("http://other.example", "a")
    await until(lambda: queue.statistics().told == 1)


async def test_nobody_is_told_without_an_address_and_rows_that_were_dead_before_are_told_with_one(opened: OpenQueue) -> None:
    address = Address()
    queue = await opened(address.post)
    await die(queue, "a", "b", "c")
    dead = await queue.dead_list()
    await queue.dead_retry([dead[0].row.id])
    await queue.dead_drop([dead[1].row.id])
    for _ in range(50):
        await asyncio.sleep(0)
    assert address.tried == []
    queue.change_settings(EffectiveSettings(on_dead=ADDRESS))
    await until(lambda: queue.statistics().told == 1)
    assert address.keys() == ["c"]


def test_secrets_of_an_address_are_not_shown() -> None:
    assert shown_address("https://me:word@ops.example:8443/hook/token?key=1") == "https://ops.example:8443"


async def test_large_data_are_told_whole_also_where_they_are_on_the_log_alone(opened: OpenQueue) -> None:
    address, large = Address(), {"text": "x" * 5000}
    queue = await opened(address.post, on_dead=ADDRESS, memory=0)
    await queue.put([NewRow(key=b"a", data=json.dumps(large).encode())])
    await queue.fail([FailedClaim((await queue.claim()).claims[0].token, "no such page", give_up=True)])
    await until(lambda: queue.statistics().told + queue.statistics().failed_notices == 1)
    assert [notice["row"]["data"] for notice in address.taken] == [large]
    assert (await queue.dead_list())[0].row.data == json.dumps(large).encode()


async def test_a_dead_row_that_cannot_be_read_keeps_no_other_from_being_told(opened: OpenQueue, clock: ManualClock) -> None:
    address = Address()
    queue = await opened(None, memory=0)
    await queue.put([NewRow(key=b"rotten", data=b'"' + b"x" * 5000 + b'"')])
    await queue.fail([FailedClaim((await queue.claim()).claims[0].token, "", give_up=True)])
    await die(queue, "b")
    queue = await opened(address.post, on_dead=ADDRESS, memory=0)
    reads = queue._runtime.reader._cut
    queue._runtime.reader._cut = lambda payload, places: reads(b"", places)  # type: ignore[method-assign]
    await until(lambda: queue.statistics().failed_notices == 1)
    clock.advance(1)
    await until(lambda: address.keys() == ["b"])
    queue._runtime.reader._cut = reads  # type: ignore[method-assign]
    clock.advance(300)
    await until(lambda: address.keys() == ["b", "rotten"])
