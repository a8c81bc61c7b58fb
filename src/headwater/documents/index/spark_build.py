"""Builds of large indexes on Spark, each in a process beside this one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path
from typing import Final

import msgspec

from headwater.core.clock import Clock
from headwater.core.settings import Settings
from headwater.documents.index.build_process import SIZE, BuildMessage, BuildOrder, encode_order, framed
from headwater.documents.index.shard import ShardRows
from headwater.documents.index.shard_jobs import StorePlace
from headwater.documents.settings import DOCUMENTS_SECTION
from headwater.documents.store import DocumentStore
from headwater.log.address import LogAddress

SMALL: Final = 1_000_000
"""Fewer items are indexed in the owner's process, where its store is a file: that has one writer, whose inserts are half of the work in any
case, and Spark's start costs as much as the other half of so many."""
SMALL_SHARED: Final = 100_000
"""The same where tasks write the rows themselves."""
_WITHOUT: Final = 60.0  # seconds until the next try after a process that has failed
_SILENT: Final = 300.0  # seconds without a shard's rows after which a process is given up
_PATIENCE: Final = 10.0  # seconds in which a process that is ended ends its Java
_logger = logging.getLogger("headwater.documents")
_message = msgspec.msgpack.Decoder(BuildMessage).decode


def small_of(settings: Settings) -> int:
    """Below how many items an index is built without Spark."""
    chosen = DOCUMENTS_SECTION.of(settings).small
    if chosen >= 0:
        return chosen
    return SMALL_SHARED if settings.store.engine == "cassandra" else SMALL


class SparkBuild:
    """A `ShardRun` by a process with Spark. Belongs to the event loop."""

    def __init__(self, source: SparkBuilds, order: BuildOrder, *, waits: bool) -> None:
        """`waits`: nothing is done here until Spark is up."""
        self._source, self._order, self._waits = source, order, waits
        self._process: asyncio.subprocess.Process | None = None
        self._up: asyncio.Task[bool] | None = None
        self._told = False

    async def start(self) -> None:
        """Start the process. Errors: `OSError` where the system has none to give."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "headwater.documents.index.build_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends it
        )
        await self._tell(encode_order(self._order))
        self._up = asyncio.create_task(self._heard())

    @property
    def pid(self) -> int | None:
        """Its process; None where there is none."""
        return None if self._process is None else self._process.pid

    async def ready(self) -> bool:
        """As `ShardRun.ready`. A process that has failed is ready, too: `next` tells."""
        assert self._up is not None
        if self._waits:
            await asyncio.shield(self._up)
        return self._up.done()

    async def next(self, after: str) -> ShardRows | None:
        """As `ShardRun.next`."""
        assert self._up is not None
        if not await asyncio.shield(self._up):
            return None
        if not self._told:
            self._told = True
            await self._tell(framed(after.encode()))
        message = await self._read()
        if message.made is None:
            self.lost(message.problem)
        return message.made

    async def aclose(self) -> None:
        process, self._process = self._process, None
        if self._up is not None:
            self._up.cancel()
        try:
            if process is not None and process.returncode is None:
                await asyncio.shield(_ended(process))
        finally:
            self._source.ended(self)

    async def _heard(self) -> bool:
        """Whether Spark is up."""
        message = await self._read()
        if message.problem:
            self.lost(message.problem)
        return not message.problem

    async def _read(self) -> BuildMessage:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        try:
            async with self._source.clock.timeout(_SILENT):  # a cluster that has no room for a job never says so
                [size] = SIZE.unpack(await stream.readexactly(SIZE.size))
                payload = await stream.readexactly(size)
            return await asyncio.to_thread(_message, payload)
        except TimeoutError:
            return BuildMessage(problem=f"Spark has made no rows in {_SILENT:g} s.")
        except asyncio.IncompleteReadError:
            return BuildMessage(problem="The process has ended; Spark's log may say why.")
        except (OSError, msgspec.MsgspecError) as error:
            return BuildMessage(problem=f"The process cannot be understood: {error}.")

    async def _tell(self, payload: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is dead already: reading tells
            self._process.stdin.write(payload)
            await self._process.stdin.drain()

    def lost(self, problem: str) -> None:
        """Say why this process goes on alone."""
        self._source.lost()
        _logger.warning("Index %d of %s is built without Spark: %s", self._order.number, self._order.uri, problem)


class SparkBuilds:
    """A `ShardSource`: at most one process at a time, for a Java takes much memory. Belongs to the event loop."""

    def __init__(self, settings: Settings, data: Path, log: LogAddress, *, clock: Clock) -> None:
        """`data`: the data directory."""
        self._settings, self._data, self._log, self.clock = settings, data.absolute(), log, clock
        self._small = small_of(settings)
        self.current: SparkBuild | None = None
        """The run that is under way."""
        self._turn = asyncio.Lock()
        self._until = 0.0
        # Tasks on other machines do not see the files of this one.
        near = settings.spark.conf.get("spark.master", settings.spark.master).startswith("local")
        self.possible = settings.spark.start != "never" and not settings.spark.remote and (near or settings.store.engine == "cassandra")

    async def begin(self, store: DocumentStore, uri: str, number: int, after: str) -> SparkBuild | None:
        """As `ShardSource.begin`. With a threshold of 0 it waits for its turn, and for Spark."""
        waits = self._small == 0
        if not self.possible or self.clock.monotonic() < self._until or (self._turn.locked() and not waits):
            return None
        await self._turn.acquire()
        try:
            if not waits and not await asyncio.to_thread(_has, store, uri, after, self._small):
                return None
            place = StorePlace(settings=self._settings, data=self._data, partition=store.partition, generation=store.generation)
            order = BuildOrder(place=place, log=self._log, uri=uri, number=number)
            run = SparkBuild(self, order, waits=waits or self._settings.spark.start == "eager")
            try:
                await run.start()
            except OSError as error:  # no memory, or too many processes
                run.lost(str(error))
                return None
            except BaseException:
                await run.aclose()
                raise
            self.current = run
            return run
        finally:
            if self.current is None:
                self._turn.release()

    def ended(self, run: SparkBuild) -> None:
        """Told by a run that is over."""
        if self.current is run:
            self.current = None
            self._turn.release()

    def lost(self) -> None:
        """Told by a run that has failed: the next one is begun after a while."""
        self._until = self.clock.monotonic() + _WITHOUT


def _has(store: DocumentStore, uri: str, after: str, items: int) -> bool:
    """Whether so many items lie behind an id."""
    with store.view() as view:
        return bool(view.cuts(uri, after=after, every=items, limit=1))


async def _ended(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
