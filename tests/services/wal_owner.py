"""An owner of a region on Kafka that stands still until a line comes: wal_owner.py SERVERS NAMESPACE REGION GROUP HOW.

HOW: `idle`; `in a clean`; `stopped`, where the test stops the whole process meanwhile, so that no thread of it goes on.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.errors import HeadwaterError
from headwater.log.kafka.log import KafkaLog
from headwater.wal.region import open_region
from headwater.wal.region_topics import RegionTopics


def stand() -> None:
    print("standing", flush=True)
    sys.stdin.readline()


class Standing:
    """A Writer that stands still before it deletes."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        if name == "delete_before":
            stand()
        return getattr(self._writer, name)


async def main() -> None:
    servers, namespace, region_number, group, stands = sys.argv[1:]
    log = KafkaLog(servers)
    owners = KafkaOwnership(log, group=group, address="http://other:1", session=30.0)
    region = await open_region(log, owners, RegionTopics(namespace, int(region_number)))
    for _ in range(10):
        await region.write(1, [b"a"])
        await region.write(2, [b"b"])
    await region.mark_delete_up_to(1, 10)
    await region.mark_delete_up_to(2, 3)
    if stands != "in a clean":
        await asyncio.to_thread(stand)
    else:
        region._owned.writer = Standing(region._owned.writer)
    for name, call in (("clean", region.clean), ("write", lambda: region.write(2, [b"late"])), ("snapshot", region.snapshot)):
        try:
            print(name, await call(), flush=True)  # type: ignore[operator]
        except HeadwaterError as error:
            print(name, type(error).__name__, flush=True)


asyncio.run(main())
