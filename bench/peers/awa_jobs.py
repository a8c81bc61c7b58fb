"""Jobs of awa. Runs in the peers' environment and imports nothing of headwater's: a request per line comes in, an answer goes out.

A request is {"jobs", "concurrency", "data"}: that many jobs, with so many characters each, are put and then run by one client, so many at a
time. The answer is {"seconds", "cpu"} of the client alone, from its start to the end of the last job.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import awa

_POLL = 5  # milliseconds; awa's own default, 200, is for idle workers


@dataclass
class Nothing:
    data: str


async def run(jobs: int, concurrency: int, data: str) -> dict[str, Any]:
    client = awa.AsyncClient(sys.argv[1])
    left, ended = jobs, asyncio.Event()

    @client.task(Nothing, queue="bench")
    async def nothing(job: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            ended.set()

    for at in range(0, jobs, 1000):
        await client.enqueue_many_copy([Nothing(data)] * min(1000, jobs - at), queue="bench")
    cpu, begun = time.process_time(), time.perf_counter()
    await client.start([("bench", concurrency)], poll_interval_ms=_POLL)
    await asyncio.wait_for(ended.wait(), 300)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    await client.shutdown()
    await client.close()
    return {"seconds": seconds, "cpu": cpu}


async def main() -> None:
    first = awa.AsyncClient(sys.argv[1])
    await first.migrate()
    await first.install_queue_storage(schema="awa")
    await first.close()
    print(json.dumps({"version": version("awa-pg")}), flush=True)
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        try:
            answer = await run(asked["jobs"], asked["concurrency"], "x" * asked["data"])
        except Exception as problem:  # told to whoever asked
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
