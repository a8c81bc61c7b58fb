"""Compares a topic's copy with the log: folds the log anew into a scratch store, and looks for the first difference.

Large topics are folded by Spark's tasks, one for each partition, each with a scratch store on its own machine.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import Cancelled, Differs, Unavailable
from headwater.core.memory import uncollected
from headwater.journal.control import ControlLog, PartitionControl
from headwater.journal.copied_partition import remake_pending
from headwater.journal.digest import head_content, row_content
from headwater.journal.discovery import JournalTopic
from headwater.journal.head import Head
from headwater.journal.replicate import RoundEngine, result_schema
from headwater.journal.replication_task import PartitionTask, copy_partition, gap
from headwater.journal.store import JournalStore, PartitionStore, PartitionView
from headwater.journal.store_address import StoreAddress, open_store
from headwater.log import Log

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.lazy import LazySpark
    from headwater.spark.ranges import Range

LARGE = 500_000
"""Records from which on Spark folds them."""
_END = object()


class PartitionVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one partition. `difference`: the first one; empty where the copy is what the log says."""

    topic: str
    partition: int
    pointer: int
    journals: int = 0
    rows: int = 0
    difference: str = ""


class TopicVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a topic. `engine`: who folded the log, this process or Spark."""

    topic: str
    engine: RoundEngine
    partitions: tuple[PartitionVerification, ...]

    @property
    def equal(self) -> bool:
        return not any(one.difference for one in self.partitions)

    def check(self) -> None:
        """Errors: `Differs` with the first difference."""
        for one in self.partitions:
            if one.difference:
                raise Differs(
                    f"The copy of {one.topic}/{one.partition} is not what the log says: {one.difference}",
                    hint=f"Make it anew with `headwater journal rebuild {one.topic}`.",
                )


def verify_topic(
    log: Log,
    store: JournalStore,
    topic: JournalTopic,
    *,
    address: StoreAddress,
    spark: LazySpark | None = None,
    large: int = LARGE,
    cancel: threading.Event | None = None,
) -> TopicVerification:
    """Compare every partition up to its pointer. `spark`: None keeps the work here.

    Errors: `LogGap` where the log no longer begins at 0; `Unavailable` where a copy is being made anew; `UnreadableRecord`; `Cancelled`;
    those of the log, the store and Spark.
    """
    control, cancel = ControlLog(log, topic.name), cancel or threading.Event()
    control.look()
    controls = tuple(control.partition(topic.generation, number) for number in range(topic.partitions))
    total = sum(log.bounds(topic.name, number).end for number in range(topic.partitions))
    if spark is not None and spark.allowed and total >= large:
        found = _verify_on_spark(log, topic, controls, address, spark, cancel)
        return TopicVerification(topic=topic.name, engine="spark", partitions=tuple(found))
    found = [
        verify_partition(log, store, topic, number, control=controls[number], one_row=address.cassandra is not None, stopped=cancel.is_set)
        for number in range(topic.partitions)
    ]
    return TopicVerification(topic=topic.name, engine="here", partitions=tuple(found))


def verify_partition(
    log: Log,
    store: JournalStore,
    topic: JournalTopic,
    partition: int,
    *,
    control: PartitionControl,
    one_row: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> PartitionVerification:
    """Compare one partition's copy with what the log says up to its pointer. Errors: as `verify_topic`.

    `one_row`: the store has one row for each number and timestamp of a journal, the first that came, as the tables of kafka-journal do.
    """
    copy = store.partition(topic.name, partition, topic.generation, create=False)
    nothing = PartitionVerification(topic=topic.name, partition=partition, pointer=-1)
    if copy is None or copy.pointer().offset < 0:
        return nothing
    if remake_pending(store, topic, partition, control):
        raise Unavailable(f"The copy of {topic.name}/{partition} is being made anew.", hint="Verify it once the replicator has done that.")
    start = log.bounds(topic.name, partition).start
    if start > 0:
        raise gap(topic.name, partition, 0, start)
    with tempfile.TemporaryDirectory(prefix="headwater-verify-") as folder, open_store(StoreAddress(folder=Path(folder))) as scratch:
        task = PartitionTask(topic=topic.name, partition=partition, generation=topic.generation, end=0, skip=control.quarantined)
        expected = _folded(log, scratch, task, copy.pointer().offset + 1, stopped)
        with copy.view() as view:
            if view.pointer.offset + 1 > task.end:  # the replicator has gone on: only little is left for the time that the view is held
                expected = _folded(log, scratch, task, view.pointer.offset + 1, stopped)
            with expected.view() as wanted:
                return _compared(msgspec.structs.replace(nothing, pointer=view.pointer.offset), wanted, view, one_row)


def _folded(log: Log, scratch: JournalStore, task: PartitionTask, end: int, stopped: Callable[[], bool]) -> PartitionStore:
    outcome = copy_partition(log, scratch, msgspec.structs.replace(task, end=end), stopped=stopped)
    if outcome.problem is not None:
        raise Differs(
            f"The log of {task.topic}/{task.partition} cannot be folded up to the store's pointer {end - 1}: {outcome.problem.message}",
            hint=outcome.problem.hint,
        )
    if stopped():
        raise Cancelled("The comparison was cancelled.", hint="Start it again.")
    found = scratch.partition(task.topic, task.partition, task.generation)
    assert found is not None
    return found


def _compared(start: PartitionVerification, wanted: PartitionView, view: PartitionView, one_row: bool) -> PartitionVerification:
    journals = rows = 0
    for expected, found in zip_longest(_heads(wanted), _heads(view)):
        if expected is None or found is None or expected[0] != found[0]:
            missing = expected is not None and (found is None or expected[0].encode() < found[0].encode())
            id = (expected if missing else found or expected or ("",))[0]
            says = "the store lacks it" if missing else "the log has no such journal"
            return msgspec.structs.replace(start, journals=journals, rows=rows, difference=f"Journal {id!r}: {says}.")
        (id, head), (_, stored) = expected, found
        if head_content(id, head) != head_content(id, stored):
            return msgspec.structs.replace(start, journals=journals, rows=rows, difference=_head_difference(id, head, stored))
        journals += 1
        for row, other in zip_longest(_rows(wanted, id, head, one_row), _rows(view, id, stored), fillvalue=_END):
            if row != other:
                number = (other if row is _END else row)[1]  # type: ignore[index]
                says = "the store lacks it" if other is _END else "the log does not hold it" if row is _END else f"{other} instead of {row}"
                return msgspec.structs.replace(
                    start, journals=journals, rows=rows, difference=f"Journal {id!r}, event {number}: {says:.1000}."
                )
            rows += 1
    return msgspec.structs.replace(start, journals=journals, rows=rows)


def _heads(view: PartitionView) -> Iterator[tuple[str, Head]]:
    after: str | None = None
    while page := view.heads(after):
        yield from page
        after = page[-1][0]


def _rows(view: PartitionView, id: str, head: Head, one_row: bool = False) -> Iterator[tuple[object, ...]]:
    number, times = 0, set[int]()  # rows come by number, then by offset
    for rows in view.rows(id, head, 1):
        for row in rows:
            if one_row:
                times = times if row.seq_nr == number else set()
                number = row.seq_nr
                if row.timestamp in times:
                    continue
                times.add(row.timestamp)
            yield row_content(row)


def _head_difference(id: str, wanted: Head, stored: Head) -> str:
    fields = [name for name in Head.__struct_fields__ if name != "segment_size" and getattr(wanted, name) != getattr(stored, name)]
    parts = [f"{name} is {getattr(stored, name)}, not {getattr(wanted, name)}" for name in fields]
    return f"Journal {id!r}, head: {', '.join(parts)}."


def _verify_on_spark(
    log: Log,
    topic: JournalTopic,
    controls: Sequence[PartitionControl],
    address: StoreAddress,
    spark: LazySpark,
    cancel: threading.Event,
) -> list[PartitionVerification]:
    from headwater.spark.ranges import Range

    ranges = [Range(topic.name, number, 0, log.bounds(topic.name, number).end) for number in range(topic.partitions)]
    worker = partial(verify_in_task, address, topic, tuple(controls))
    tables = spark.runner().run(ranges, worker, schema=result_schema(), cancel=cancel)
    return [msgspec.json.decode(table.column("result")[0].as_py(), type=PartitionVerification) for table in tables]


def verify_in_task(
    address: StoreAddress, topic: JournalTopic, controls: tuple[PartitionControl, ...], log: Log, given: Range
) -> pa.RecordBatch:
    """Runs inside a Spark task: `verify_partition` of the range's partition."""
    import pyarrow as pa

    with open_store(address) as store, uncollected():
        found = verify_partition(
            log, store, topic, given.partition, control=controls[given.partition], one_row=address.cassandra is not None
        )
    return pa.RecordBatch.from_pydict({"result": [msgspec.json.encode(found)]}, schema=result_schema())
