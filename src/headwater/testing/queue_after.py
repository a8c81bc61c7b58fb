"""The contract of rows that wait for others: who is claimed before whom, and what becomes of those whose others do not end well."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.queue.queue import Queue
from headwater.queue.values import FailedClaim
from headwater.testing.queue_ground import QueueGround, claim_one, keys, row


@pytest.mark.anyio
class QueueAfter:
    """Part of `QueueContract`."""

    async def test_a_diamond_is_done_in_its_order_also_by_other_processes(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (top,) = await queue.put([row("top")])
        left, right = await queue.put([row("left", after=(top.id,)), row("right", after=(top.id,))])
        await queue.put([row("bottom", after=(left.id, right.id), priority=0)])
        assert await _run(queue) == ["top"]
        queue = await ground.restarted()
        assert (await queue.get(b"bottom")).after == (left.id, right.id)
        assert (await queue.count()).held == 1
        assert await _run(queue) == ["left", "right"]
        queue = await ground.restarted()
        assert await _run(queue) == ["bottom"]
        assert await keys(queue) == []

    async def test_dead_rows_hold_or_cancel_what_waits_for_them(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (first,) = await queue.put([row("first")])
        (second,) = await queue.put([row("cancelled", after=(first.id,), after_dead="cancel")])
        await queue.put([row("cancelled too", after=(second.id,), after_dead="cancel"), row("held", after=(first.id,))])
        claim = await claim_one(queue)
        await queue.fail([FailedClaim(claim.token, "no", give_up=True)])
        queue = await ground.restarted()
        assert await keys(queue) == ["held"]
        assert await _run(queue) == []
        (again,) = await queue.dead_retry([first.id])
        queue = await ground.restarted()
        assert (await queue.get(b"held")).after == (again.id,)
        assert await _run(queue) == ["first"]
        assert await _run(queue) == ["held"]

    async def test_rows_never_wait_for_each_other(self, ground: QueueGround) -> None:
        queue = await ground.queue()
        (a,) = await queue.put([row("a")])
        (b,) = await queue.put([row("b", after=(a.id,))])
        with pytest.raises(BadInput, match="'a' waits for 'b', 'b' for 'a'"):
            await queue.put([row("c"), row("a", after=(b.id,))])
        with pytest.raises(BadInput, match="never given"):
            await queue.put([row("c", after=(b.id + 1_000_000_000,))])
        assert await keys(queue) == ["a", "b"]


async def _run(queue: Queue) -> list[str]:
    """Claim all that is due, and do it."""
    claims = (await queue.claim(100)).claims
    assert await queue.done([claim.token for claim in claims]) == []
    return [claim.row.key.decode() for claim in claims]
