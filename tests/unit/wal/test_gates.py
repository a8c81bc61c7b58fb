from __future__ import annotations

import asyncio

import pytest

from headwater.wal.gates import TableGates, Written

pytestmark = pytest.mark.anyio


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_changes_of_one_table_come_one_after_the_other_and_others_beside_them() -> None:
    gates, order = TableGates(), []

    async def change(table: int, name: str) -> None:
        async with gates.alone(table):
            order.append(f"{name} begins")
            await turns()
            order.append(f"{name} ends")

    await asyncio.gather(change(1, "a"), change(1, "b"), change(2, "c"))
    assert order.index("a ends") < order.index("b begins")
    assert order.index("c begins") < order.index("a ends")
    assert not gates


async def test_one_who_gives_up_leaves_the_gate_closed_until_his_record_is_there() -> None:
    gates, order = TableGates(), []
    record: Written = asyncio.get_running_loop().create_future()

    async def first() -> None:
        async with gates.alone(1) as wait_for:
            await wait_for(record)

    async def second() -> None:
        async with gates.alone(1):
            order.append("second")

    tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
    await turns()
    tasks[0].cancel()
    await turns()
    assert tasks[0].cancelled()
    assert order == []
    record.set_exception(OSError("lost"))
    await tasks[1]
    assert order == ["second"]
    assert not gates


async def test_one_who_gives_up_while_he_waits_for_the_gate_leaves_nothing() -> None:
    gates = TableGates()
    async with gates.alone(1):
        waiting = asyncio.create_task(gates.alone(1).__aenter__())
        await turns()
        waiting.cancel()
        await turns()
        assert waiting.cancelled()
        assert len(gates) == 1
    assert not gates


async def test_an_error_opens_the_gate() -> None:
    gates = TableGates()
    with pytest.raises(OSError):
        async with gates.alone(1) as wait_for:
            record: Written = asyncio.get_running_loop().create_future()
            record.set_exception(OSError("lost"))
            await wait_for(record)
    assert not gates
