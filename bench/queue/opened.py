"""A queue of a region, open for all rounds, beside a bare topic of the same log."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from bench.case import Sample
from bench.place import TOPIC, VALUE
from bench.wal.filled import TOPICS, opened_region
from headwater.core.clock import SystemClock
from headwater.core.errors import Differs
from headwater.core.timers import Timers
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.group_commit import Appender
from headwater.log.record import Record
from headwater.queue.body import BODY_SIZE
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.queue import Queue, open_queue
from headwater.queue.records import HEADER_SIZE
from headwater.queue.row import BINARY, NewRow
from headwater.wal.layout import EMPTY, KEY_LENGTH
from headwater.wal.region_creation import create_region

KEY = 16  # bytes of a row's key
DATA = bytes(VALUE)
_FILL = 1000  # rows of a put that fills a queue
_TABLES = itertools.count(1)

Clock = Callable[[], float]
Caller = Callable[[int], Coroutine[None, None, None]]


def new_rows(first: int, count: int, *, process_date: int | None = None) -> list[NewRow]:
    """Rows of 16 + 100 bytes with keys that no other row has."""
    return [NewRow(key=b"%016d" % number, data=DATA, form=BINARY, process_date=process_date) for number in range(first, first + count)]


class Rounds:
    """Rounds of calls to a queue, and to the bare log's group commit, on one event loop."""

    def __init__(self, runner: asyncio.Runner, queue: Queue, appender: Appender) -> None:
        self.runner, self.queue, self._appender = runner, queue, appender
        self._number = 0

    @classmethod
    @contextmanager
    def opened(cls, log: EmbeddedLog) -> Iterator[Rounds]:
        """Over a table of its own, of a region of this log."""

        async def appender() -> Appender:
            return Appender(lambda batch: log.append(TOPIC, 0, batch))

        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            queue, bare = runner.run(stack.enter_async_context(opened_queue(log, next(_TABLES)))), runner.run(appender())
            try:
                yield cls(runner, queue, bare)
            finally:
                runner.run(bare.aclose())
                runner.run(stack.aclose())

    # -- what is measured -----------------------------------------------------------------------------------------

    def puts(self, callers: int, each: int, clock: Clock = time.perf_counter, *, batch: int = 1) -> Sample:
        """Each caller puts so many times, and waits for each. The rows go again afterwards."""
        put, amount = self.queue.put, callers * each * batch
        rows = self._rows(amount)
        calls = iter([rows[at : at + batch] for at in range(0, amount, batch)])

        async def caller(_: int) -> None:
            for _ in range(each):
                await put(next(calls))

        sample = self.runner.run(together(caller, callers, amount, clock))
        self.drain(amount)
        return sample

    def claims_and_dones(self, callers: int, each: int, clock: Clock = time.perf_counter, *, batch: int = 1) -> Sample:
        """Each caller claims rows and says that they are done, by two calls."""
        claim, done, amount = self.queue.claim, self.queue.done, callers * each * batch
        self.fill(amount)

        async def caller(_: int) -> None:
            for _ in range(each):
                await done([claimed.token for claimed in (await claim(batch)).claims])

        return self._finishing(amount, lambda: self.runner.run(together(caller, callers, amount, clock)))

    def dones_with_claims(self, callers: int, each: int, clock: Clock = time.perf_counter, *, batch: int = 1) -> Sample:
        """As a worker does it: the call that says that rows are done claims the next ones."""
        claim, done, amount = self.queue.claim, self.queue.done, callers * each * batch
        self.fill(amount)

        async def caller(_: int) -> None:
            tokens: list[str] = []
            for _ in range(each):
                tokens = [claimed.token for claimed in (await claim(batch, done=tokens)).claims]
            await done(tokens)

        return self._finishing(amount, lambda: self.runner.run(together(caller, callers, amount, clock)))

    def bare(self, callers: int, each: int, clock: Clock = time.perf_counter) -> Sample:
        """As many callers of the log's group commit, with ready records that are as long as that of a put."""
        records, append = [Record(bytes(KEY_LENGTH), bytes(len(EMPTY) + HEADER_SIZE + BODY_SIZE + KEY + VALUE))], self._appender.append

        async def caller(_: int) -> None:
            for _ in range(each):
                await append(records)

        return self.runner.run(together(caller, callers, callers * each, clock))

    # -- what is not ------------------------------------------------------------------------------------------------

    def fill(self, count: int, *, process_date: int | None = None) -> None:
        """Put so many rows."""

        async def put() -> None:
            rows = self._rows(count, process_date=process_date)
            for at in range(0, count, _FILL):
                await self.queue.put(rows[at : at + _FILL])

        self.runner.run(put())

    def drain(self, count: int) -> None:
        """Finish all due rows, which must be so many."""

        async def finish() -> int:
            finished = 0
            while claims := (await self.queue.claim(_FILL)).claims:
                finished += len(claims)
                await self.queue.done([claim.token for claim in claims])
            return finished

        if (total := self.runner.run(finish())) != count:
            raise Differs(f"The queue had {total} due rows, not {count}.", hint="Keep the folder.")

    def _rows(self, count: int, *, process_date: int | None = None) -> list[NewRow]:
        first, self._number = self._number, self._number + count  # a key that still waits would be merged, not inserted
        return new_rows(first, count, process_date=process_date)

    def _finishing(self, amount: int, work: Callable[[], Sample]) -> Sample:
        """Errors: `Differs` where other than so many rows are done afterwards, or some are left: calls that find nothing are quick."""
        before = self.queue.statistics().done
        sample = work()
        if (finished := self.queue.statistics().done - before) != amount:
            raise Differs(f"The queue has finished {finished} rows, not {amount}.", hint="Look at what was put.")
        self.drain(0)
        return sample


@asynccontextmanager
async def opened_queue(log: EmbeddedLog, table: int) -> AsyncIterator[Queue]:
    """A queue at a table of the log's region, which is created where it is not there; both are closed afterwards."""
    if TOPICS.data not in {topic.name for topic in log.topics()}:
        create_region(log, TOPICS)
    async with opened_region(log) as region:
        clock = SystemClock()
        queue = await open_queue("bench", region, table, settings=EffectiveSettings(), clock=clock, timers=Timers(clock))
        try:
            yield queue
        finally:
            await queue.aclose()


async def together(caller: Caller, callers: int, amount: int, clock: Clock) -> Sample:
    """The clock starts when all callers wait for the word: making them is no part of their work."""
    start = asyncio.Event()

    async def called(number: int) -> None:
        await start.wait()
        await caller(number)

    tasks = [asyncio.create_task(called(number)) for number in range(callers)]
    await asyncio.sleep(0)
    cpu, begun = time.process_time(), clock()
    start.set()
    await asyncio.gather(*tasks)
    return Sample(amount, clock() - begun, time.process_time() - cpu)
