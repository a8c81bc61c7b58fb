"""How long after an Append's answer the store has its events, while appends come at a steady pace; copied by a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import headwater
from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.journal.opened import JOURNALS, PAYLOAD, id_of
from bench.place import Place
from bench.sizes import Sizes
from headwater.client.journals import TopicJournals
from headwater.core.errors import Unavailable
from headwater.journal.sqlite import SqliteJournalStore
from headwater.log.embedded.log import EmbeddedLog

_SLOW, _QUICK = 100, 5000  # Appends per second
_TICK = 0.005  # seconds between two groups of Appends, where one by one is too many
_LOOK = 0.001  # seconds between two looks at the store
_PATIENCE = 60.0
_JOURNALS = 256


def lag(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """From an Append's answer to a pointer of the store behind it."""
    name = "journal lag"
    with place.sub("lag") as folder:
        try:
            with _Copied.opened(folder) as copied:
                for pace, percent, most in ((_SLOW, 50, 0.020), (_QUICK, 99, 0.250)):
                    yield Case(
                        f"{name} at {pace}/s, p{percent}",
                        "event",
                        Side("until it is in the store", partial(copied.round, pace, sizes.lag, percent)),
                        Side("a bare row, until another connection sees it", partial(copied.bare, pace, sizes.lag, percent)),
                        mark.time(most, f"≤ {most * 1000:.0f} ms"),
                        shown="time",
                        rounds=sizes.rare,
                    )
        except Unavailable as problem:
            yield Skipped(name, str(problem))


class _Copied:
    """A topic of one partition, its writers on an event loop, and a replicator beside them."""

    def __init__(self, runner: asyncio.Runner, topic: TopicJournals, store: SqliteJournalStore, generation: str, folder: Path) -> None:
        self._runner, self._topic, self._store, self._generation, self._folder = runner, topic, store, generation, folder

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[_Copied]:
        data = folder / "data"
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()

            async def opened() -> TopicJournals:
                hw = await stack.enter_async_context(headwater.open(data, create=True))
                await hw.journals.create(JOURNALS, partitions=1)
                return await hw.journals(JOURNALS)

            topic = runner.run(opened())
            try:
                with EmbeddedLog(data) as log, _replicating(folder, data), SqliteJournalStore(data / "store" / "journal") as store:
                    yield cls(runner, topic, store, log.topic(JOURNALS).generation, folder)
            finally:
                runner.run(stack.aclose())

    def round(self, pace: int, seconds: float, percent: int) -> Sample:
        return self._runner.run(self._run(pace, seconds, percent))

    async def _run(self, pace: int, seconds: float, percent: int) -> Sample:
        acked: dict[int, float] = {}  # offset → when its Append was answered
        journals = [self._topic[id_of(number)] for number in range(_JOURNALS)]

        async def append(number: int) -> None:
            placed = await journals[number % _JOURNALS].append(PAYLOAD)
            acked[placed.offset] = time.perf_counter()

        await append(0)
        first = min(acked)
        acked.clear()
        seen = _Seen(self._store, self._generation, first)
        with seen.looking():
            begun, number, tasks = time.perf_counter(), 0, set[asyncio.Task[None]]()
            while (now := time.perf_counter() - begun) < seconds:
                while number < now * pace:
                    number += 1
                    tasks.add(asyncio.create_task(append(number)))
                await asyncio.sleep(max(1 / pace, _TICK))
            await asyncio.gather(*tasks)
            await asyncio.to_thread(seen.wait, max(acked))
        return Sample(1, _percentile([seen.when(offset) - at for offset, at in acked.items()], percent))

    def bare(self, pace: int, seconds: float, percent: int) -> Sample:
        """As many rows, committed one by one by this thread, until a look of another connection sees them."""
        import apsw

        path = str(self._folder / "bare.db")
        writer, reader = apsw.Connection(path), apsw.Connection(path)
        writer.execute(
            "pragma journal_mode = wal; pragma synchronous = normal; create table if not exists row (number integer primary key)"
        ).fetchall()
        lags: list[float] = []
        try:
            for _ in range(max(1, int(min(pace, _SLOW) * seconds))):
                time.sleep(1 / pace)
                writer.execute("insert into row default values")
                begun = time.perf_counter()
                reader.execute("select max(number) from row").fetchall()
                lags.append(time.perf_counter() - begun)
        finally:
            writer.close()
            reader.close()
        return Sample(1, _percentile(lags, percent))


class _Seen:
    """When the store's pointer was first seen at which offset, looked at each millisecond in a thread."""

    def __init__(self, store: SqliteJournalStore, generation: str, first: int) -> None:
        self._store, self._generation = store, generation
        self._looks: list[tuple[int, float]] = [(first, 0.0)]
        self._ended = threading.Event()

    @contextmanager
    def looking(self) -> Iterator[None]:
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _look(self) -> None:
        copy = None
        while not self._ended.wait(_LOOK):
            copy = copy or self._store.partition(JOURNALS, 0, self._generation, create=False)
            if copy is not None and (offset := copy.pointer().offset) > self._looks[-1][0]:
                self._looks.append((offset, time.perf_counter()))

    def wait(self, offset: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self._looks[-1][0] < offset:
            if time.monotonic() > deadline:
                raise Unavailable(f"The store has not reached offset {offset}.", hint="See what the replicator says.")
            time.sleep(_LOOK)

    def when(self, offset: int) -> float:
        """When an offset was there."""
        return self._looks[bisect_left(self._looks, offset, key=lambda look: look[0])][1]


@contextmanager
def _replicating(folder: Path, data: Path) -> Iterator[None]:
    """`headwater journal replicate`, once it has copied a first record."""
    with (folder / "said").open("wb") as output:
        command = [sys.executable, "-m", "headwater.cli", "journal", "replicate", "--data", str(data)]
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not (data / "store" / "journal" / JOURNALS).exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"The replicator does not copy: {(folder / 'said').read_text()[-500:]}", hint="Run it by hand.")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _percentile(times: list[float], percent: int) -> float:
    times.sort()
    return max(times[min(len(times) - 1, len(times) * percent // 100)], 1e-9)
