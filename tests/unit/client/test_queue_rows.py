"""What no call of a queue takes: it is an error of the tree with a hint, over a directory as over HTTP, and nothing has changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.queue_ground import queues_over

from headwater.client.queue import OneQueue
from headwater.core.errors import BadInput, StaleClaim
from headwater.testing.clock import ManualClock
from headwater.testing.queue_program import blocking_queue_for_tests

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["directory", "http"])
async def pages(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OneQueue]:
    async with queues_over(tmp_path / "data", request.param, ManualClock()) as queues:
        yield await queues("pages", create=True)


async def listed(queue: OneQueue, **filters: Any) -> list[Any]:
    return [row async for row in queue.rows(**filters)]


Call = Callable[[Any, Any], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "done": lambda queue, wrong: queue.done(wrong),
    "extend": lambda queue, wrong: queue.extend(wrong),
    "fail": lambda queue, wrong: queue.fail(wrong),
    "release": lambda queue, wrong: queue.release(wrong),
    "claim with done": lambda queue, wrong: queue.claim(wait="0s", done=[wrong]),
    "claim with a result": lambda queue, wrong: queue.claim(wait="0s", done=[(wrong, 1)]),
    "claim with no list": lambda queue, wrong: queue.claim(wait="0s", done=wrong or 1),
    "claim for a group": lambda queue, wrong: queue.claim(wait="0s", group=wrong),
    "claim by a worker": lambda queue, wrong: queue.claim(wait="0s", worker=wrong),
    "claim with a wait": lambda queue, wrong: queue.claim(wait=wrong),
    "an error": lambda queue, wrong: queue.fail("0-1-1", wrong),
    "a retry": lambda queue, wrong: queue.fail("0-1-1", retry_after=wrong if wrong is not None else 1),
    "a delay": lambda queue, wrong: queue.release("0-1-1", delay=wrong if wrong is not None else 1),
    "the name of a put": lambda queue, wrong: queue.put("k", 1, idempotency_key=wrong if wrong is not None else ""),
    "rows to put": lambda queue, wrong: queue.put_many(wrong),
    "a row to put": lambda queue, wrong: queue.put_many([wrong]),
    "the state of rows": lambda queue, wrong: listed(queue, state=wrong if wrong is not None else "wait"),
    "the prefix of rows": lambda queue, wrong: listed(queue, prefix=wrong),
    "the reason of dead rows": lambda queue, wrong: queue.dead_retry_all(reason=wrong if wrong is not None else "died"),
    "the prefix of dead rows": lambda queue, wrong: queue.dead_drop_all(prefix=wrong),
    "a dead row": lambda queue, wrong: queue.dead_retry(wrong),
    "waiting claims": lambda queue, wrong: queue.leave(wrong),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
async def test_what_a_call_does_not_take_is_bad_input_and_changes_nothing(pages: OneQueue, call: Call) -> None:
    await pages.put("page:/about", 1)
    for wrong in (None, 1.5, b"x", object(), [], {}):
        with pytest.raises(BadInput) as told:
            await call(pages, wrong)
        assert told.value.hint
    row = await pages.get("page:/about")
    assert (row.status, row.attempts, row.data, len(await listed(pages))) == ("W", 0, 1, 1)


async def test_a_token_that_is_none_spoils_the_call_before_it_does_anything(pages: OneQueue) -> None:
    await pages.put_many([("a", 1), ("b", 2)])
    first, second = await pages.claim(2)
    with pytest.raises(BadInput):
        await pages.done(first.token, [])  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        await pages.claim(wait="0s", done=[first, {}])  # type: ignore[list-item]
    assert (await pages.count()).processing == 2
    assert await pages.done(first.token, second.token) == []


def test_claims_of_the_blocking_door_are_done_with_the_next_claim() -> None:
    with blocking_queue_for_tests("pages") as test:
        test.queue.put_many([("a", 1), ("b", 2), ("c", 3)])
        [first] = test.queue.claim(1, wait="0s")
        [second] = test.queue.claim(1, wait="0s", done=[first])
        [third] = test.queue.claim(1, wait="0s", done=[(second, {"pages": 2})])
        assert (test.queue.count().processing, test.queue.result(second.id, timeout="0ms")) == (1, {"pages": 2})
        with pytest.raises(StaleClaim):
            first.done()
        third.done(result=b"\xff")
        assert test.queue.result(third.id) == b"\xff"
