"""What the log's contract suites stand on: logs that are closed afterwards, fresh topics, and ways to look at all of a partition."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from headwater.log import Bounds, Log, Record
from headwater.log.epochs import Epochs, unmarked

OpenLog = Callable[[], Log]
PATIENCE = 120.0  # seconds after which a test that waits for something fails


class Ground:
    """The fixtures. An engine's test class gives `open_log`."""

    compacts: bool = True
    guards: bool = True  # an append without a Writer takes a guard
    keeps_files: bool = True  # segments are files of ours: they have periods of the calendar, and are disposed of as the topic says

    @pytest.fixture
    def open_log(self) -> OpenLog:
        raise NotImplementedError("Give a fixture `open_log` that returns a function, which opens a Log on the same storage each time.")

    @pytest.fixture
    def another(self, open_log: OpenLog) -> Iterator[OpenLog]:
        """Opens one more Log on the same storage; all are closed afterwards."""
        with ExitStack() as opened:
            yield lambda: opened.enter_context(open_log())

    @pytest.fixture
    def log(self, another: OpenLog) -> Log:
        return another()

    @pytest.fixture
    def topic(self, log: Log) -> str:
        """A fresh topic with one partition."""
        return log.create_topic(fresh("topic")).name


def fresh(word: str) -> str:
    """A name that nothing else has."""
    return f"{word}-{uuid.uuid4().hex}"


def numbered(count: int, start: int = 0) -> list[Record]:
    return [Record(b"key-%d" % n, b"value-%d" % n, timestamp=1_000_000 + n) for n in range(start, start + count)]


def at(records: Sequence[Record], offsets: Sequence[int]) -> list[Record]:
    """The records as they are read back."""
    return [msgspec.structs.replace(record, offset=offset) for record, offset in zip(records, offsets, strict=True)]


def everything(log: Log, topic: str, partition: int = 0) -> list[Record]:
    """All records of a partition, the engine's own included, read page by page."""
    bounds = log.bounds(topic, partition)
    records: list[Record] = []
    start = bounds.start
    while start < bounds.end:
        page = log.read(topic, partition, start)
        if not page:
            break
        records += page
        start = (page[-1].offset or 0) + 1
    return [record for record in records if record.offset is not None and record.offset < bounds.end]


def counted(log: Log, topic: str, partition: int = 0, epochs: Epochs | None = None) -> list[Record]:
    """The records of a claimed partition that count, as their writers gave them."""
    epochs = epochs or Epochs()
    return [unmarked(record) for record in everything(log, topic, partition) if epochs.admits(record)]


@contextmanager
def unchanged(log: Log, topic: str) -> Iterator[None]:
    """Whatever happens inside must leave the topic as it was."""

    def look() -> tuple[object, list[Bounds], list[list[Record]]]:
        description = log.topic(topic)
        numbers = range(description.partitions)
        return description, [log.bounds(topic, number) for number in numbers], [everything(log, topic, number) for number in numbers]

    before = look()
    yield
    assert look() == before


def together(*calls: Callable[[], None]) -> None:
    """Run the calls at once, each in a thread; raise the first error that one of them raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        try:
            gate.wait(PATIENCE)
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread has not ended"
    if errors:
        raise errors[0]


def first_batch(tail: Iterator[list[Record]]) -> list[Record]:
    """The first batch of a tail that holds records: a tail gives empty lists while none have come."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if batch := next(tail):
            return batch
    raise AssertionError("no record has come")


def tailed(log: Log, topic: str, start: int, count: int) -> list[Record]:
    """The next `count` records that a tail from `start` gives."""
    deadline = time.monotonic() + PATIENCE
    records: list[Record] = []
    for batch in log.tail(topic, 0, start, stopped=lambda: len(records) >= count or time.monotonic() > deadline):
        records.extend(batch)
    return records
