"""Journals of a directory, open through the door for all rounds, beside a bare topic with as many partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import headwater
from bench.case import Sample
from bench.place import TOPIC
from bench.queue.opened import Clock, together
from headwater.client.journal import Journal
from headwater.client.journals import TopicJournals
from headwater.core.errors import Differs
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.group_commit import Appender
from headwater.log.layout import encode_headers
from headwater.log.partitioner import partition_for
from headwater.log.record import Record

JOURNALS = "journal-bench"
PARTITIONS = 2  # those of a new topic on this machine
PAYLOAD = {"type": "deposited", "amount": 1250, "currency": "EUR", "account": "DE02120300000000202051", "by": "branch 17"}
"""A hundred bytes as JSON."""


def id_of(number: int) -> str:
    """The id of a journal: 36 characters, as long as a UUID."""
    return f"account-{number:028}"


class OpenJournals:
    """Rounds of Appends to journals, and of appends to the bare log's group commit, on one event loop."""

    def __init__(self, runner: asyncio.Runner, topic: TopicJournals, bare: list[Appender], log: EmbeddedLog) -> None:
        self.runner, self.topic, self._bare, self._log = runner, topic, bare, log

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, *, partitions: int = PARTITIONS) -> Iterator[OpenJournals]:
        """A topic of journals, and a bare one, in a new data directory."""
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()

            async def opened() -> tuple[TopicJournals, list[Appender]]:
                hw = await stack.enter_async_context(headwater.open(folder / "data", create=True))
                await hw.journals.create(JOURNALS, partitions=partitions)
                return await hw.journals(JOURNALS), [_appender(log, number) for number in range(partitions)]

            with EmbeddedLog(folder / "bare") as log:
                log.create_topic(TOPIC, partitions=partitions)
                topic, bare = runner.run(opened())
                try:
                    yield cls(runner, topic, bare, log)
                finally:
                    for appender in bare:
                        runner.run(appender.aclose())
                    runner.run(stack.aclose())

    def journals(self, count: int) -> list[Journal]:
        return [self.topic[id_of(number)] for number in range(count)]

    def appends(self, callers: int, each: int, clock: Clock = time.perf_counter, *, events: int = 1) -> Sample:
        """Each caller appends so many times to a journal of its own, and waits for each. A piece is an event."""
        journals, payloads = self.journals(callers), [PAYLOAD] * events
        last = self.runner.run(journals[0].pointer()) or 0

        async def caller(number: int) -> None:
            append = journals[number].append
            if events == 1:
                for _ in range(each):
                    await append(PAYLOAD)
            else:
                for _ in range(each):
                    await append(*payloads)

        sample = self.runner.run(together(caller, callers, callers * each * events, clock))
        if (pointer := self.runner.run(journals[0].pointer())) != last + each * events:
            raise Differs(f"A journal ends with event {pointer}, not with {last + each * events}.", hint="Keep the folder.")
        return sample

    def bare(self, callers: int, each: int, clock: Clock = time.perf_counter) -> Sample:
        """As many callers of the log's group commit with a ready record each: the same key, and a value with as many bytes as value and
        headers of an Append."""
        record = self.record()
        calls = []
        for number in range(callers):
            key = id_of(number).encode()
            calls.append((self._bare[partition_for(key, len(self._bare))].append, [Record(key, bytes(self._room(record)))]))

        async def caller(number: int) -> None:
            append, records = calls[number]
            for _ in range(each):
                await append(records)

        return self.runner.run(together(caller, callers, callers * each, clock))

    def record(self) -> Record:
        """A record as an Append makes it."""

        async def appended() -> Record:
            journal = self.topic[id_of(0)]
            placed = await journal.append(PAYLOAD)
            with EmbeddedLog(self._log.data.parent / "data") as log:
                return log.read(JOURNALS, placed.partition, placed.offset, limit=1)[0]

        return self.runner.run(appended())

    @staticmethod
    def _room(record: Record) -> int:
        return len(record.value or b"") + len(encode_headers(record.headers))

    def bytes_of_append(self) -> int:
        """What one Append takes on disk, alone in its batch."""
        record = self.record()
        return _HEAD + len(record.key or b"") + self._room(record) + _TRAILER


_HEAD, _TRAILER = 29, 16


def _appender(log: EmbeddedLog, partition: int) -> Appender:
    return Appender(lambda batch: log.append(TOPIC, partition, batch), name=f"bare-{partition}")
