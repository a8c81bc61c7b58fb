"""The embedded engine: segment files in a directory, nothing to install, safe for several processes at once."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadBounds, Closed, Damaged, ReadOnly, UnknownPartition, UnknownTopic
from headwater.core.files import Files, boot_id, explained
from headwater.core.ids import Ids, random_id
from headwater.core.metrics import LogMetrics
from headwater.log import Log, Watching, Writer
from headwater.log.address import LogAddress
from headwater.log.embedded.arrivals import Arrivals
from headwater.log.embedded.housekeeping import delete_before
from headwater.log.embedded.keeper import Keeper, settle
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.topics import Topics
from headwater.log.layout import Batch, encode
from headwater.log.marker import check_engine, mark_engine
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_IDLE = 0.1  # seconds after which a tail that has nothing gives an empty list
_TURN = 0.05  # seconds after which it looks whether it is to stop


class EmbeddedLog(Log):
    """The log below `<data>/log`. Opening creates nothing; a partition's files appear with its first append.

    `read_only=True` never writes: appends raise `ReadOnly`. Several processes, and several of these in one process, may use one directory.
    After a fork the child's copy opens its own files.
    """

    engine = "embedded"

    def __init__(
        self,
        data: Path | str,
        *,
        read_only: bool = False,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids = random_id,
        boot: bytes | None = None,
        metrics: LogMetrics | None = None,
    ) -> None:
        self.data = Path(data)
        self.read_only = read_only
        self._files, self._clock = files or Files(), clock or SystemClock()
        self._boot = boot or boot_id()
        self._metrics = metrics
        self._topics = Topics(self.data / "log", files=self._files, ids=ids)
        self._mutex = threading.Lock()
        self._closed = False
        self._known: dict[str, Topic] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._readers: dict[tuple[str, int], PartitionReader] = {}
        self._keeper = Keeper(partitions=lambda: list(self._partitions.values()), clock=self._clock)
        self._arrivals = Arrivals(self._opened_reader, lambda name: self._topics.get(name).generation)
        check_engine(self.data)
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(myself()))

    @property
    def address(self) -> LogAddress:
        return LogAddress(path=str(self.data.resolve()))

    # -- topics ---------------------------------------------------------------------------------------------

    def create_topic(self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None) -> Topic:
        self._writable()
        try:
            return self._topics.create(name, partitions, settings, prepare=lambda: mark_engine(self.data, self._files, "embedded"))
        except OSError as error:
            raise explained(error, self.data) from error

    def topics(self) -> list[Topic]:
        self._open()
        return self._topics.list()

    def topic(self, name: str) -> Topic:
        self._open()
        return self._topics.get(name)

    def delete_topic(self, name: str) -> None:
        self._writable()
        topic = self._topics.get(name)
        try:
            for number in range(topic.partitions):
                try:
                    self.partition(name, number).mark_deleted()
                except Damaged:
                    continue  # a damaged topic can be deleted, too: nobody can have it open for writing
            self._drop(name)
            self._topics.delete(name)
        except OSError as error:
            raise explained(error, self.data) from error

    # -- writing --------------------------------------------------------------------------------------------

    def append(self, topic: str, partition: int, records: Sequence[Record]) -> range:
        found = self._partitions.get((topic, partition)) or self.partition(topic, partition)
        batch = encode(records, now=self._clock.now_ms(), limit=found.settings.max_record)  # outside of the lock: others need not wait
        return self._appended(found, topic, partition, batch, None)

    def append_arrow(self, topic: str, partition: int, batch: pa.RecordBatch) -> range:
        return self._append(topic, partition, self._columns(batch), None)

    def claim(self, topic: str, partition: int) -> Writer:
        return _EmbeddedWriter(self, topic, partition, self._again(topic, partition, Partition.claim))

    def writer(self, topic: str, partition: int, epoch: int) -> Writer:
        self.partition(topic, partition)
        return _EmbeddedWriter(self, topic, partition, epoch)

    def _columns(self, batch: pa.RecordBatch) -> Callable[[int], Batch]:
        from headwater.log.embedded.columns import encode_columns

        return lambda limit: encode_columns(batch, now=self._clock.now_ms(), limit=limit)

    def _append(self, topic: str, partition: int, encoded: Callable[[int], Batch], epoch: int | None) -> range:
        found = self._partitions.get((topic, partition)) or self.partition(topic, partition)
        return self._appended(found, topic, partition, encoded(found.settings.max_record), epoch)

    def _appended(self, found: Partition, topic: str, partition: int, batch: Batch, epoch: int | None) -> range:
        try:
            first = found.append(batch, epoch=epoch)
        except UnknownTopic:
            first = self._again(topic, partition, lambda fresh: fresh.append(batch, epoch=epoch), found)
        self._arrivals.published(topic, partition)
        return range(first, first + batch.records)

    def _again(self, topic: str, partition: int, call: Callable[[Partition], T], stale: Partition | None = None) -> T:
        """Call with the open partition; once more with a fresh one when the topic was deleted and made again meanwhile."""
        found = stale or self.partition(topic, partition)
        try:
            if stale is None:
                return call(found)
        except UnknownTopic:
            pass
        self._drop(topic)
        return call(self.partition(topic, partition))

    # -- reading --------------------------------------------------------------------------------------------

    def epoch(self, topic: str, partition: int) -> int:
        return self._reading(topic, partition, PartitionReader.epoch)

    def bounds(self, topic: str, partition: int) -> Bounds:
        return self._reading(topic, partition, PartitionReader.bounds)

    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 64 << 20) -> list[Record]:
        return self._reading(topic, partition, lambda reader: reader.read(start, limit=limit, max_bytes=max_bytes))

    def scan(self, topic: str, partition: int, start: int, end: int | None = None, *, batch: int = 65_536) -> Iterator[pa.RecordBatch]:
        bounds = self.bounds(topic, partition)
        end = bounds.end if end is None else end
        if end < start:
            raise BadBounds(f"Offsets {start} to {end} are the wrong way round.", hint="Give the lower one first.")
        return self._reader(topic, partition).scan(start, end, batch=batch)

    def watch(self, topic: str, partition: int, changed: Callable[[], None]) -> Watching:
        self._open()
        return self._arrivals.watch(topic, partition, changed)

    def tail(self, topic: str, partition: int, start: int, *, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        arrived = threading.Event()
        with self.watch(topic, partition, arrived.set) as watching:
            reader = self._reader(topic, partition)
            reader.expect(start)
            quiet_since = time.monotonic()
            while not stopped():
                arrived.clear()  # before the look: what comes after the look ends the wait
                if watching.end() > start and (records := reader.read(start, limit=1000, max_bytes=16 << 20)):
                    yield records
                    start = (records[-1].offset or 0) + 1
                    quiet_since = time.monotonic()
                elif not arrived.wait(_TURN) and time.monotonic() - quiet_since >= _IDLE:
                    yield []
                    quiet_since = time.monotonic()

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return self._reading(topic, partition, lambda reader: reader.offset_at(timestamp))

    # -- housekeeping ---------------------------------------------------------------------------------------

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return self._again(topic, partition, lambda found: delete_before(found, offset))

    def compact(self, topic: str, partition: int, before: int | None = None) -> Compacted:
        from headwater.log.embedded.compaction import compact

        return self._again(topic, partition, lambda found: compact(found, before=before))

    def reader(self, topic: str, partition: int) -> PartitionReader:
        """The partition as files: for `check`, `repair` and `stats`."""
        return self._reader(topic, partition)

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        self._arrivals.close()
        self._keeper.stop()
        settle(self._partitions.values())
        for partition in self._partitions.values():
            partition.close()
        for reader in self._readers.values():
            reader.close()

    # -- what is open ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise Closed("The log has been closed.", hint="Open it again.")

    def _writable(self) -> None:
        self._open()
        if self.read_only:
            raise ReadOnly(f"{self.data} was opened for reading only.", hint="Open it without read_only to change it.")

    def _folder(self, topic: str, partition: int) -> Path:
        known = self._known.get(topic)
        if known is None or not (self._topics.folder / topic / "topic.json").exists():
            known = self._known[topic] = self._topics.get(topic)
        if not 0 <= partition < known.partitions:
            raise UnknownPartition(
                f"Topic {topic} has partitions 0 to {known.partitions - 1}; there is no {partition}.",
                hint=f"See `headwater log stats {topic}`.",
            )
        return self._topics.folder / topic / str(partition)

    def partition(self, topic: str, partition: int) -> Partition:
        self._writable()
        with self._mutex:
            found = self._partitions.get((topic, partition))
            if found is None:
                folder = self._folder(topic, partition)
                metrics = self._metrics.partition(topic, partition) if self._metrics else None
                found = self._partitions[topic, partition] = Partition(
                    folder,
                    name=f"{topic} {partition}",
                    settings=self._known[topic].settings,
                    files=self._files,
                    clock=self._clock,
                    boot=self._boot,
                    metrics=metrics,
                )
                self._keeper.start()
            return found

    def _reader(self, topic: str, partition: int) -> PartitionReader:
        self._open()
        with self._mutex:
            found = self._readers.get((topic, partition))
            if found is None or not found.folder.exists():
                folder = self._folder(topic, partition)
                found = self._readers[topic, partition] = self._new_reader(folder, topic, partition)
            return found

    def _new_reader(self, folder: Path, topic: str, partition: int) -> PartitionReader:
        return PartitionReader(folder, name=f"{topic} {partition}", files=self._files, boot=self._boot)

    def _opened_reader(self, topic: str, partition: int) -> PartitionReader:
        """A reader that only who waits uses."""
        with self._mutex:
            return self._new_reader(self._folder(topic, partition), topic, partition)

    def _reading(self, topic: str, partition: int, call: Callable[[PartitionReader], T]) -> T:
        try:
            return call(self._reader(topic, partition))
        except UnknownTopic:
            self._drop(topic)
            return call(self._reader(topic, partition))

    def _drop(self, topic: str) -> None:
        """Let go of everything known about a topic that was deleted."""
        with self._mutex:
            self._known.pop(topic, None)
            for key in [key for key in self._partitions if key[0] == topic]:
                self._partitions.pop(key).discard()
            for key in [key for key in self._readers if key[0] == topic]:
                self._readers.pop(key).close()
        self._arrivals.dropped(topic)

    def _forget(self) -> None:
        """In a forked child. Nothing is unlocked or waited for: descriptors, locks and threads are the parent's."""
        for partition in self._partitions.values():
            partition.forget()
        self._mutex = threading.Lock()
        self._partitions, self._readers, self._known = {}, {}, {}
        self._arrivals.forget()
        self._keeper = Keeper(partitions=lambda: list(self._partitions.values()), clock=self._clock)


def _forget(log: EmbeddedLog | None) -> None:
    if log is not None:
        log._forget()


class _EmbeddedWriter(Writer):
    """The epoch lives in the commit page and the manifest and is compared under the lock: records carry nothing."""

    def __init__(self, log: EmbeddedLog, topic: str, partition: int, epoch: int) -> None:
        self._log, self.topic, self.partition, self.epoch = log, topic, partition, epoch

    def append(self, records: Sequence[Record]) -> range:
        return self._log._append(
            self.topic, self.partition, lambda limit: encode(records, now=self._log._clock.now_ms(), limit=limit), self.epoch
        )

    def append_arrow(self, batch: pa.RecordBatch) -> range:
        return self._log._append(self.topic, self.partition, self._log._columns(batch), self.epoch)
