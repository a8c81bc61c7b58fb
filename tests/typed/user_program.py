"""What users write, for mypy: both doors, each part. `make check` fails where a right call is refused, or a marked one is not."""

from __future__ import annotations

from typing import Any

import msgspec

import headwater
from headwater import Claim, QueueSettings, Record


class Price(msgspec.Struct):
    price: float


async def asynchronous() -> None:
    async with headwater.open("./data", create=True) as hw:
        last: int = (await hw.log.append("orders", 0, [Record(b"key", b"value")]))[-1]
        async for record in hw.log.tail("orders", 0, last):
            value: bytes | None = record.value
            print(value)
        for pipeline in await hw.pipelines.list():
            await hw.pipelines[pipeline.pipeline].ack("report", 14, why="counted by hand")
        region = await hw.wal("wal").open(7, create=True)
        first: int = await region.write(3, [b"payload"])
        pages = await hw.queue("pages", create=QueueSettings(lease="60s"))
        claims: list[Claim] = await pages.claim(3)
        alice = hw.journals("bank")["alice"]
        async for event in alice.read():
            number: int = event.seq_nr
            print(number, event.payload, claims, first)
        document = await hw.documents["shop/hat"].get(type=Price)
        price: float = document.body.price

        await hw.log.append("orders", "0", [])  # type: ignore[arg-type]
        await hw.pipelines["shop"].ack("report", 14)  # type: ignore[call-arg]
        await region.write(3, b"payload")  # type: ignore[arg-type]
        await pages.put("key", priority="high")  # type: ignore[arg-type]
        alice.read(consistency="soon")  # type: ignore[arg-type]
        await hw.documents["shop/hat"].patch({}, kind="whatever")  # type: ignore[arg-type]
        text: str = price  # type: ignore[assignment]
        print(text, hw.nothing)  # type: ignore[attr-defined]


def blocking(handler: Any) -> None:
    with headwater.open_blocking("http://127.0.0.1:8420", token="secret") as hw:
        last: int = hw.log.append("orders", 0, [Record(b"key", b"value")])[-1]
        for record in hw.log.tail("orders", 0, last):
            print(record.value)
        acked = hw.pipelines["shop"].ack("report", 14, why="counted by hand", dry_run=True)
        position: int = acked.position
        first: int = hw.wal("wal").open(7).write(3, [b"payload"])
        with hw.queue("pages").claim(1)[0] as claim:
            print(claim.key, position, first)
        for event in hw.journals("bank")["alice"].read(start=2):
            print(event.seq_nr)
        price: float = hw.documents["shop/hat"].get(type=Price).body.price

        hw.log.append("orders", "0", [])  # type: ignore[arg-type]
        hw.pipelines["shop"].ack("report", 14)  # type: ignore[call-arg]
        hw.queue("pages").put("key", priority="high")  # type: ignore[arg-type]
        hw.journals("bank")["alice"].read(consistency="soon")  # type: ignore[arg-type]
        text: str = price  # type: ignore[assignment]
        print(text, hw.nothing, handler)  # type: ignore[attr-defined]
