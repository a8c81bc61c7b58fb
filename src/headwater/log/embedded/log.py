"""The embedded engine: segment files in a directory, nothing to install, safe for several processes at once."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Closed, ReadOnly, UnknownTopic
from headwater.core.files import Files, boot_id, explained, explaining
from headwater.core.ids import Ids, random_id
from headwater.core.metrics import LogMetrics
from headwater.log import Log, Watching, Writer
from headwater.log.address import LogAddress
from headwater.log.embedded import guarding, inline
from headwater.log.embedded.arrivals import EmbeddedArrivals
from headwater.log.embedded.exclusive import wait_for_holder
from headwater.log.embedded.handles import Handle, Handles, close_all, most_handles
from headwater.log.embedded.housekeeping import delete_before
from headwater.log.embedded.keeper import Keeper, disposed, settle
from headwater.log.embedded.partition import Partition
from headwater.log.embedded.reader import PartitionReader
from headwater.log.embedded.reserve import Reserve
from headwater.log.embedded.topics import EmbeddedTopics
from headwater.log.embedded.writer import EmbeddedWriter
from headwater.log.encoding import encode
from headwater.log.guard import Guard
from headwater.log.layout import EncodedBatch
from headwater.log.marker import check_engine, mark_engine
from headwater.log.owners import check_owner
from headwater.log.record import Bounds, Compacted, Record, Topic, TopicSettings, check_scan, partition_number, whole

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Claim = EmbeddedWriter | None
Encoder = Callable[[int, int], EncodedBatch]  # encodes a batch, given the largest record size and the time
_IDLE = 0.1  # seconds after which a tail that has nothing gives an empty list, and looks whether it is to stop


class EmbeddedLog(Log):
    """The log below `<data>/log`. Opening creates nothing; a partition's files appear with its first append.

    `read_only=True`: appends raise `ReadOnly`. Several processes and objects may use one directory. A forked child opens its own files.
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
        self.data, self.read_only = Path(data), read_only
        self._files, self._clock = files or Files(), clock or SystemClock()
        self._boot, self._metrics = boot or boot_id(), metrics
        self._topics = EmbeddedTopics(self.data / "log", files=self._files, ids=ids)
        self._closed, self._most = False, most_handles()
        self._begin()
        self._arrivals = EmbeddedArrivals(self._opened_reader, lambda name: self._topics.get(name).generation)
        with explaining(self.data, reading=True):
            check_engine(self.data)
        myself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(myself()))

    def _begin(self) -> None:
        """Initialize, with nothing open."""
        self._mutex, self._reserve = threading.Lock(), Reserve(self.data / "log", files=self._files)
        self._partitions: Handles[Partition] = Handles(clock=self._clock, most=self._most)
        self._readers: Handles[PartitionReader] = Handles(clock=self._clock, most=max(4, self._most // 2))  # each has several segments open
        self._appends: dict[Partition, int] = {}
        self._keeper = Keeper(partitions=lambda: list(self._partitions.values()), idle=self._rest, clock=self._clock)

    @property
    def address(self) -> LogAddress:
        return LogAddress(path=str(self.data.resolve()))

    # -- topics ---------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, *, partitions: int = 1, settings: TopicSettings | None = None, part: str = "", copies: int = 0
    ) -> Topic:
        self._writable()
        with explaining(self.data):
            return self._topics.create(name, partitions, settings, part=part, copies=copies, prepare=self._prepare)

    def _prepare(self) -> None:
        mark_engine(self.data, self._files, "embedded")
        self._reserve.fill()

    def topic_names(self) -> list[str]:
        self._open()
        return list(self._topics.names())

    def topics(self) -> list[Topic]:
        self._open()
        with explaining(self.data, reading=True):
            return self._topics.list()

    def topic(self, name: str) -> Topic:
        self._open()
        with explaining(self.data, reading=True):
            return self._topics.get(name)

    def delete_topic(self, name: str, *, part: str = "") -> None:
        self._writable()
        self._reserve.free(lambda: self._topics.delete(name, part))
        self._drop(name)

    # -- writing --------------------------------------------------------------------------------------------

    def append(self, topic: str, partition: int, records: Sequence[Record], *, guard: Guard | None = None, part: str = "") -> range:
        if type(partition) is not int or type(topic) is not str:
            partition = partition_number(topic, partition)
        opened = self._partitions.get((topic, partition)) or self.partition(topic, partition)
        batch = encode(records, now=self._clock.now_ms(), limit=opened.max_record)  # outside of the lock: others need not wait
        return self._appended(opened, topic, partition, batch, None, part, guard)

    def append_inline(self, topic: str, partition: int, records: Sequence[Record]) -> range | None:
        opened = self._partitions.get((topic, partition))
        if opened is None or opened.settings.owner or self._reserve.scarce:
            return None
        batch = encode(records, now=self._clock.now_ms(), limit=opened.max_record)
        first = inline.append(opened, batch)
        if first is None:
            return None
        if self._arrivals.anybody:
            self._arrivals.published(topic, partition)
        return range(first, first + batch.records)

    def append_arrow(self, topic: str, partition: int, batch: pa.RecordBatch, *, part: str = "") -> range:
        from headwater.log.embedded.columns import encode_columns

        return self.append_encoded(topic, partition, lambda limit, now: encode_columns(batch, now=now, limit=limit), None, part)

    def claim(self, topic: str, partition: int, *, part: str = "", claimant: str = "") -> Writer:
        def claimed(opened: Partition) -> Writer:
            return EmbeddedWriter(self, topic, partition, self._checked(opened, topic, part, "claim").claim(), generation=opened.generation)

        if not self.read_only and type(partition) is int and 0 <= partition < self.topic(topic).partitions:
            wait_for_holder(self._topics.folder / topic / str(partition), files=self._files, clock=self._clock)
        return self.freeing(topic, partition, claimed)  # who wants to delete claims first

    def writer(self, topic: str, partition: int, epoch: int, *, generation: str = "", part: str = "") -> Writer:
        opened = self._checked(self.partition(topic, partition), topic, part, "claim")
        return EmbeddedWriter(self, topic, partition, whole(epoch, "epoch"), generation=generation or opened.generation)

    def append_encoded(
        self, topic: str, partition: int, encoded: Encoder, claim: Claim, part: str = "", guard: Guard | None = None
    ) -> range:
        """Append the batch that `encoded` makes. The caller has checked the owner if it has a claim."""
        if type(partition) is not int or type(topic) is not str:
            partition = partition_number(topic, partition)
        opened = self._partitions.get((topic, partition)) or self.partition(topic, partition)
        return self._appended(opened, topic, partition, encoded(opened.max_record, self._clock.now_ms()), claim, part, guard)

    def _appended(
        self, opened: Partition, topic: str, partition: int, batch: EncodedBatch, claim: Claim, part: str, guard: Guard | None
    ) -> range:
        def append(to: Partition) -> int | Exception:
            checked = self._checked(to, topic, part, "append") if claim is None else claim.checked(to)
            return guarding.append(checked, batch, None if claim is None else claim.epoch, guard)

        self._reserve.admit()
        try:
            first = append(opened)
        except (UnknownTopic, Closed) as error:
            first = self.with_partition(topic, partition, append, refused=(opened, error))
        if self._arrivals.anybody:
            self._arrivals.published(topic, partition)
        if isinstance(first, Exception):
            raise first
        return range(first, first + batch.records)

    def _checked(self, opened: Partition, topic: str, part: str, operation: str) -> Partition:
        """The partition. Errors: `OwnedTopic`, by the topic as it is now: it may have been made anew by another part."""
        if opened.settings.owner not in ("", part):
            check_owner(topic, self._topics.get(topic).settings.owner, part, operation)
        return opened

    def with_partition(
        self, topic: str, partition: int, call: Callable[[Partition], T], refused: tuple[Partition, UnknownTopic | Closed] | None = None
    ) -> T:
        """Call with the open partition; with a new one where its topic was created again, or it was closed, before anything was done."""
        while True:
            if refused is not None:
                stale, error = refused
                if self._closed or (isinstance(error, UnknownTopic) and self._topics.stamp(topic) is None):
                    raise error
                self._forget_partition((topic, partition), stale)
            opened = self.partition(topic, partition)
            try:
                with opened.held():
                    done = call(opened)
                    disposed(opened, self._readers.get((topic, partition)))
                    return done
            except (UnknownTopic, Closed) as error:
                refused = opened, error

    # -- reading --------------------------------------------------------------------------------------------

    def epoch(self, topic: str, partition: int) -> int:
        return self._reading(topic, partition, PartitionReader.epoch)

    def bounds(self, topic: str, partition: int) -> Bounds:
        return self._reading(topic, partition, PartitionReader.bounds)

    def known_end(self, topic: str, partition: int) -> int | None:
        reader = self._readers.get((topic, partition))
        return None if reader is None else reader.known_end()

    def read(self, topic: str, partition: int, start: int, *, limit: int = 1000, max_bytes: int = 64 << 20) -> list[Record]:
        return self._reading(
            topic, partition, lambda reader: reader.read(whole(start), limit=whole(limit, "limit"), max_bytes=whole(max_bytes, "size"))
        )

    def read_at(self, topic: str, partition: int, offsets: Sequence[int]) -> list[Record | None]:
        return self._reading(topic, partition, lambda reader: reader.read_at(offsets))

    def scan(self, topic: str, partition: int, start: int, end: int | None = None, *, batch: int = 65_536) -> Iterator[pa.RecordBatch]:
        bounds, start = self.bounds(topic, partition), whole(start)
        end = bounds.end if end is None else whole(end)
        check_scan(start, end, whole(batch, "batch size"))
        return self._scanned(self.reader(topic, partition), start, end, batch)

    def _scanned(self, reader: PartitionReader, start: int, end: int, batch: int) -> Iterator[pa.RecordBatch]:
        with explaining(reader.folder, reading=True):
            yield from reader.scan(start, end, batch=batch)

    def watch(self, topic: str, partition: int, changed: Callable[[], None]) -> Watching:
        self._open()
        return self._arrivals.watch(topic, partition_number(topic, partition), changed)

    def tail(self, topic: str, partition: int, start: int, *, stopped: Callable[[], bool]) -> Iterator[list[Record]]:
        arrived = threading.Event()
        with explaining(self.data, reading=True), self.watch(topic, partition, arrived.set) as watching:
            reader = self.reader(topic, partition)
            reader.expect(start := whole(start))
            while not stopped():
                arrived.clear()  # before the look: what comes after the look ends the wait
                if watching.end() > start and (records := reader.read(start, limit=1000, max_bytes=16 << 20)):
                    yield records
                    start = (records[-1].offset or 0) + 1
                elif not arrived.wait(_IDLE):
                    yield []

    def offset_at(self, topic: str, partition: int, timestamp: int) -> int:
        return self._reading(topic, partition, lambda reader: reader.offset_at(whole(timestamp, "timestamp")))

    # -- housekeeping ---------------------------------------------------------------------------------------

    def delete_before(self, topic: str, partition: int, offset: int, *, part: str = "") -> int:
        return self.freeing(topic, partition, lambda opened: delete_before(self._checked(opened, topic, part, "delete_before"), offset))

    def compact(self, topic: str, partition: int, before: int | None = None, *, part: str = "") -> Compacted:
        from headwater.log.embedded.compaction import compact

        return self.with_partition(topic, partition, lambda opened: compact(self._checked(opened, topic, part, "compact"), before=before))

    def freeing(self, topic: str, partition: int, call: Callable[[Partition], T]) -> T:
        """`with_partition` for calls that free space: they work on a full disk, too."""
        return self._reserve.free(lambda: self.with_partition(topic, partition, call))

    def with_reserve(self, call: Callable[[], T]) -> T:
        return self._reserve.spend(call)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
        self._arrivals.close()  # all of this can be done again, after an exception as Ctrl-C
        self._keeper.stop()
        settle(partitions := list(self._partitions.values()))
        close_all(partitions)
        close_all(list(self._readers.values()))

    # -- what is open ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise Closed("The log has been closed.", hint="Open it again.")

    def _writable(self) -> None:
        self._open()
        if self.read_only:
            raise ReadOnly(f"{self.data} was opened for reading only.", hint="Open it without read_only to change it.")

    def partition(self, topic: str, partition: int) -> Partition:
        partition = partition_number(topic, partition)
        while True:
            with self._mutex, explaining(self.data):
                self._writable()  # not before the mutex: whoever waits for it while the log is closed would open what nobody closes
                if (opened := self._partitions.get((topic, partition))) is not None:
                    return opened
                self._topics.with_partition(topic, partition)  # before the lock: looking up a name that is not there makes no file
                if not (excess := self._partitions.room()):
                    opened = self._reserve.spend(lambda: self._opened(topic, partition))
                    self._partitions.put((topic, partition), opened)
                    self._keeper.start()
                    return opened
            close_all(excess)  # outside of the mutex, because it syncs: reads of other partitions do not wait for that

    def _opened(self, topic: str, partition: int) -> Partition:
        with self._topics.unchanged():
            return Partition(
                self._topics.folder / topic / str(partition),
                name=f"{topic} {partition}",
                topic=self._topics.with_partition(topic, partition),
                files=self._files,
                clock=self._clock,
                boot=self._boot,
                metrics=self._metrics.partition(topic, partition) if self._metrics else None,
            )

    def reader(self, topic: str, partition: int) -> PartitionReader:
        """The reader of a partition; for `check`, `repair` and `stats`, too."""
        partition = partition_number(topic, partition)
        with self._mutex:
            self._open()
            reader, excess = self._readers.get((topic, partition)), list[PartitionReader]()
            if reader is None or reader.gone or not os.path.exists(reader.folder):
                reader = self._new_reader(topic, partition)
                excess = self._readers.room()
                self._readers.put((topic, partition), reader)
                self._keeper.start()
            self._readers.touch((topic, partition))
        close_all(excess)
        return reader

    def _new_reader(self, topic: str, partition: int) -> PartitionReader:
        self._topics.with_partition(topic, partition)
        return PartitionReader(
            self._topics.folder / topic / str(partition), name=f"{topic} {partition}", files=self._files, boot=self._boot
        )

    def _opened_reader(self, topic: str, partition: int) -> PartitionReader:
        with self._mutex:
            return self._new_reader(topic, partition)

    def _reading(self, topic: str, partition: int, call: Callable[[PartitionReader], T]) -> T:
        try:
            try:
                return call(self.reader(topic, partition))
            except UnknownTopic:
                self._drop(topic)
                return call(self.reader(topic, partition))
        except OSError as error:  # as `explaining` does, whose steps would cost more than a look at the bounds
            raise explained(error, self.data, reading=True) from error

    def _rest(self) -> None:
        """Called each second: close unused partitions. The next call opens them again."""
        with self._mutex:
            for key, partition in self._partitions.items():
                if self._appends.get(partition) != partition.appends:
                    self._appends[partition] = partition.appends
                    self._partitions.touch(key)
            idle, readers = self._partitions.idle(), self._readers.idle()
            self._appends = {partition: self._appends[partition] for partition in self._partitions.values()}
        close_all(idle)
        close_all(readers)

    def _forget_partition(self, key: tuple[str, int], stale: Partition) -> None:
        """Drop a partition that refuses calls, unless another thread has opened a new one."""
        with self._mutex:
            if self._partitions.get(key) is stale:
                self._partitions.take(key)
        stale.discard()

    def _drop(self, topic: str) -> None:
        """Drop everything about a deleted topic."""
        with self._mutex:
            self._topics.forget(topic)
            partitions, readers = self._partitions.of_topic(topic), self._readers.of_topic(topic)
        for partition in partitions:
            partition.discard()
        close_all(readers)
        self._arrivals.dropped(topic)

    def _forget(self) -> None:
        """In a forked child. Nothing is unlocked or waited for: descriptors, locks and threads are the parent's."""
        handles: list[Handle] = [*self._partitions.values(), *self._readers.values()]
        for handle in handles:
            handle.forget()
        self._begin()
        self._arrivals.forget()


def _forget(log: EmbeddedLog | None) -> None:
    if log is not None:
        log._forget()
