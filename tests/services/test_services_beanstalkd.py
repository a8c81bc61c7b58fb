"""A real beanstalkd, and the benchmarks' client of it."""

from __future__ import annotations

import asyncio
import uuid

from bench.queue.beanstalk import Beanstalk
from tools.services import up
from tools.services.private import PrivateServers


def test_what_was_put_is_reserved_and_deleted(beanstalkd: tuple[str, int]) -> None:
    async def run() -> None:
        client = await Beanstalk.connect(*beanstalkd, f"t-{uuid.uuid4().hex}")
        await client.put([b"first", b"second"])
        jobs = [await client.reserve(), await client.reserve()]
        assert None not in jobs
        assert jobs[0] != jobs[1]
        assert await client.reserve() is None
        for job in jobs:
            assert job is not None
            await client.delete(job)
        await client.aclose()

    asyncio.run(run())


def test_a_second_up_finds_it(beanstalkd: tuple[str, int]) -> None:
    running = up("beanstalkd", kept=False)
    assert running.found == {"beanstalkd"}
    assert running.beanstalkd == beanstalkd


def test_a_killed_one_comes_back_with_its_jobs(private_servers: PrivateServers) -> None:
    running = private_servers.up("beanstalkd")

    async def put() -> None:
        client = await Beanstalk.connect(*running.beanstalkd, "kept")
        await client.put([b"one"])
        await client.aclose()

    async def reserve() -> bytes | None:
        client = await Beanstalk.connect(*running.beanstalkd, "kept")
        job = await client.reserve()
        await client.aclose()
        return job

    asyncio.run(put())
    running.kill("beanstalkd-1")
    running.restart("beanstalkd-1")
    assert asyncio.run(reserve()) is not None
