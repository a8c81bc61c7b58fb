"""One round of replication: partition tasks, run in this process or as one Spark job, a task for each partition.

Few records are copied here, because a round of Spark costs more than they do. `small` says how many are few: with 0 every round is a job.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from headwater.core.clock import Clock
from headwater.core.errors import Cancelled, HeadwaterError, Unavailable, Unsupported
from headwater.core.ids import random_id
from headwater.core.memory import uncollected
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.replication_task import PartitionOutcome, PartitionTask, copy_partition
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.store import JournalStore
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.store_sign import check_sign
from headwater.log import Log
from headwater.spark.lazy import LazySpark
from headwater.spark.small import Place, place
from headwater.spark.starting import end_java

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.ranges import Range

RoundEngine = Literal["here", "spark"]
SMALL = 20_000
SIGN = "headwater/replicator"
"""The setting of a store by which tasks on other machines know that it is the replicator's."""
_MEANWHILE = 20_000  # records of a partition that this process copies at once while Spark starts
_STARTING = 0.05  # seconds between two looks whether Spark is up
_WITHOUT = 60.0  # seconds until the next try to start a Spark that has failed
_IDLE = 60.0  # seconds without a job after which Spark is stopped, where small rounds need none
_IDLE_ALWAYS = 600.0  # the same where every round is a job, and the next record would wait for Spark's start


class RoundOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a round did. `engine`: who copied, this process or Spark."""

    engine: RoundEngine
    partitions: tuple[PartitionOutcome, ...]
    seconds: float

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds > 0 else 0.0


def small_of(settings: Settings) -> int:
    """Below how many records a round runs in the replicator: as set, or 20 000 on the embedded log with Spark on this machine, else 0."""
    chosen = JOURNAL_SECTION.of(settings).small
    if chosen >= 0:
        return chosen
    return SMALL if settings.log.engine == "embedded" and settings.spark.master == SparkSettings().master else 0


class Rounds:
    """Runs rounds for one log and one store. `stopping` ends a round early: what is copied by then stays.

    No Java runs before a round needs Spark, nor long after the last one that did.
    """

    def __init__(
        self,
        log: Log,
        store: JournalStore,
        *,
        address: StoreAddress,
        spark: SparkSettings,
        small: int,
        clock: Clock,
        stopping: threading.Event | None = None,
        ends_java: bool = False,
    ) -> None:
        """`ends_java`: this process is the replicator's own, so Java ends with the last job. Elsewhere others may use it."""
        self._log, self._store, self._address = log, store, address
        self._settings, self._small, self._clock = spark, small, clock
        self._stopping, self._ends_java = stopping or threading.Event(), ends_java
        self._spark = self._lazy()
        self._job_at = clock.monotonic()  # when the last job ended
        self._without_until = 0.0
        self._sign = ""
        self.spark_problem = ""
        """Why records that are Spark's to copy are copied here; empty where nothing is wrong."""

    def choose(self, count: int) -> Place:
        """Where to copy so many records now. Errors: those of starting Spark."""
        if self._small and self._clock.monotonic() < self._without_until:
            return Place.HERE if count < self._small else Place.MEANWHILE
        where = place(count, self._spark, least=self._small)
        while where is Place.MEANWHILE and not self._small and not self._stopping.is_set():
            self._clock.wait(self._stopping, _STARTING)  # every round is a job: wait for Spark
            where = place(count, self._spark, least=0)
        return where

    def run(self, tasks: Sequence[PartitionTask], where: Place, pointers: Sequence[int]) -> RoundOutcome:
        """One round. `pointers`: those of the tasks' partitions, for the length of the tasks.

        Where Spark fails as a whole, this process copies a share, and tries Spark again after a minute; `spark_problem` says why.
        Errors: `Cancelled`; where every round is a job, those of Spark as a whole. Errors of one partition are in its outcome.
        """
        began = self._clock.monotonic()
        if where is Place.SPARK:
            try:
                outcomes = self._job(tasks, pointers)
            except Cancelled:
                raise
            except (Unavailable, Unsupported) as error:
                self._lose(error)
                if not self._small:
                    raise
                where = Place.MEANWHILE
        if where is not Place.SPARK:
            if where is Place.MEANWHILE:
                tasks = [
                    msgspec.structs.replace(task, end=min(task.end, pointer + 1 + _MEANWHILE))
                    for task, pointer in zip(tasks, pointers, strict=True)
                ]
            outcomes = [copy_partition(self._log, self._store, task, stopped=self._stopping.is_set) for task in tasks]
        engine: RoundEngine = "spark" if where is Place.SPARK else "here"
        return RoundOutcome(engine=engine, partitions=tuple(outcomes), seconds=self._clock.monotonic() - began)

    def rest(self) -> bool:
        """Stop Spark where it has had nothing to do for long; whether that was done."""
        if (
            not self._ends_java
            or not self._spark.started
            or self._clock.monotonic() - self._job_at < (_IDLE if self._small else _IDLE_ALWAYS)
        ):
            return False
        self.close()
        self._spark = self._lazy()
        return True

    @property
    def spark_started(self) -> bool:
        """Whether a Java process runs for this replicator."""
        return self._spark.started

    def close(self) -> None:
        """End jobs under way, and Spark."""
        started = self._spark.started
        self._spark.close()
        if started and self._ends_java:
            end_java()

    def _seen(self) -> str:
        """What tasks must find in the store, where they may run on machines that do not see this one's files; empty elsewhere."""
        if self._spark.local or self._address.folder is None:
            return ""
        if not self._sign:
            self._sign = random_id()
            self._store.set_setting(SIGN, self._sign)
        return self._sign

    def _lose(self, error: HeadwaterError) -> None:
        """Spark is gone: forget its session, so that the next try starts another one."""
        self.spark_problem, self._without_until = f"{error.message} {error.hint}".strip(), self._clock.monotonic() + _WITHOUT
        self._spark.close()
        if self._ends_java:
            end_java()
        self._spark = self._lazy()

    def _lazy(self) -> LazySpark:
        return LazySpark(self._log.address, self._settings, name="headwater journals")

    def _job(self, tasks: Sequence[PartitionTask], pointers: Sequence[int]) -> list[PartitionOutcome]:
        from headwater.spark.ranges import Range

        ranges = [
            Range(task.topic, number, min(pointer + 1, task.end), task.end)  # a range's partition carries the task's number
            for number, (task, pointer) in enumerate(zip(tasks, pointers, strict=True))
        ]
        worker = partial(copy_in_task, self._address, tuple(tasks), seen=self._seen())
        try:
            tables = self._spark.runner().run(ranges, worker, schema=result_schema(), cancel=self._stopping)
        finally:
            self._job_at = self._clock.monotonic()
        self.spark_problem = ""
        return [msgspec.json.decode(table.column("result")[0].as_py(), type=PartitionOutcome) for table in tables]


def copy_in_task(address: StoreAddress, tasks: tuple[PartitionTask, ...], log: Log, given: Range, *, seen: str = "") -> pa.RecordBatch:
    """Runs inside a Spark task: opens the store, and copies one partition's range. An error of one partition is part of its outcome, so
    that the tasks of the other partitions go on; the loop tries it again.

    Errors: `BadConfig` where the store that it finds is not the replicator's (`seen`): it would make another one, on its own machine.
    """
    import pyarrow as pa

    task = tasks[given.partition]
    with open_store(address) as store, uncollected():
        check_sign(store, address, (SIGN, seen))
        outcome = copy_partition(log, store, task)
    return pa.RecordBatch.from_pydict({"result": [msgspec.json.encode(outcome)]}, schema=result_schema())


def result_schema() -> pa.Schema:
    """What a task sends back: its outcome as JSON."""
    import pyarrow as pa

    return pa.schema([("result", pa.binary())])
