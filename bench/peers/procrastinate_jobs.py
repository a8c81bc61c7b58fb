"""Jobs of procrastinate. Runs in the peers' environment, imports nothing of headwater's: a request per line comes in, an answer goes out.

A request is {"jobs", "concurrency", "data"}: that many jobs, with so many characters each, are put and then run by one worker, so many at a
time. The answer is {"seconds", "cpu"} of the worker alone, from its start to the end of the last job.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import procrastinate

connector = procrastinate.PsycopgConnector(conninfo=sys.argv[1])
app = procrastinate.App(connector=connector)


@app.task(queue="bench", name="nothing")
async def nothing(data: str) -> None: ...


async def run(jobs: int, concurrency: int, data: str) -> dict[str, Any]:
    await nothing.batch_defer_async(*({"data": data} for _ in range(jobs)))
    cpu, begun = time.process_time(), time.perf_counter()
    await app.run_worker_async(
        queues=["bench"], concurrency=concurrency, wait=False, delete_jobs="always", install_signal_handlers=False, listen_notify=False
    )
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    left = list(await app.job_manager.list_jobs_async(queue="bench"))
    assert not left, f"{len(left)} jobs are left"
    return {"seconds": seconds, "cpu": cpu}


async def main() -> None:
    print(json.dumps({"version": version("procrastinate")}), flush=True)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for line in iter(sys.stdin.readline, ""):
            asked = json.loads(line)
            try:
                answer = await run(asked["jobs"], asked["concurrency"], "x" * asked["data"])
            except Exception as problem:  # told to whoever asked
                answer = {"error": f"{type(problem).__name__}: {problem}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
