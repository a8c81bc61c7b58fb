"""A small client of beanstalkd for asyncio: a tube of its own, and jobs that are put, reserved and deleted."""

from __future__ import annotations

import asyncio

from headwater.core.errors import Differs

_TIME_TO_RUN = 3600  # seconds


class Beanstalk:
    """One connection. A call waits for its answer; calls of one connection are made one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, host: str, port: int, tube: str) -> Beanstalk:
        """Puts into this tube, and reserves from it alone."""
        client = cls(*await asyncio.open_connection(host, port))
        for word in (f"use {tube}", f"watch {tube}", "ignore default"):
            await client._ask(word.encode())
        return client

    async def put(self, bodies: list[bytes]) -> None:
        """Put jobs, each by a call of its own; all calls are sent before the first answer is read."""
        self._writer.write(b"".join(b"put 100 0 %d %d\r\n%b\r\n" % (_TIME_TO_RUN, len(body), body) for body in bodies))
        for _ in bodies:
            _expect(await self._reader.readline(), b"INSERTED")

    async def reserve(self) -> bytes | None:
        """Reserve a job; return its id. None: there is none."""
        words = (await self._ask(b"reserve-with-timeout 0")).split()
        if words[0] == b"TIMED_OUT":
            return None
        _expect(words[0], b"RESERVED")
        await self._reader.readexactly(int(words[2]) + 2)
        return words[1]

    async def delete(self, job: bytes) -> None:
        """Delete a job that is reserved."""
        _expect(await self._ask(b"delete " + job), b"DELETED")

    async def aclose(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def _ask(self, command: bytes) -> bytes:
        self._writer.write(command + b"\r\n")
        return await self._reader.readline()


def _expect(answer: bytes, word: bytes) -> None:
    if not answer.startswith(word):
        raise Differs(f"beanstalkd said {answer!r}, not {word.decode()}.", hint="See its protocol.")
