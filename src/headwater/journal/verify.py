"""Compares a topic's copy with the log: folds the log anew into a scratch store, and looks for the first difference.

Large topics are folded by Spark's tasks, one for each partition, each with a scratch store on its own machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import Cancelled, Differs, Unavailable
from headwater.core.memory import uncollected
from headwater.journal.base import BaseNote, BaseSnapshots, JournalBases
from headwater.journal.control import NOTHING, ControlLog, PartitionControl
from headwater.journal.copied_partition import remake_pending
from headwater.journal.counts import partition_counts
from headwater.journal.digest import head_content, row_content
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.head import Head
from headwater.journal.replicate import RoundEngine, result_schema
from headwater.journal.replication_task import PartitionTask, copy_partition, gap
from headwater.journal.snapshot_verify import begin_rings, verify_rings
from headwater.journal.store import JournalStore, PartitionView
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.store_sign import NO_SIGN, Sign, check_sign, signed
from headwater.log import Log
from headwater.wire.progress import report

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.spark.lazy import LazySpark
    from headwater.spark.ranges import Range

LARGE = 500_000
"""Records from which on Spark folds them."""
_STEP = 100_000  # records between two reports of progress
_END = object()
Controls = tuple[PartitionControl, PartitionControl]
"""What is decided about a partition of journals, and about its snapshots."""


class PartitionVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one partition. `difference`: the first one; empty where the copy is what the log says.

    `folded`, `folded_snapshots`: the last records that the scratch store holds in the end; -1: none. `of_snapshots`: the generation of the
    topic of snapshots that were compared; empty: none were.
    """

    topic: str
    partition: int
    pointer: int
    journals: int = 0
    rows: int = 0
    snapshots: int = 0
    folded: int = -1
    folded_snapshots: int = -1
    of_snapshots: str = ""
    waiting: int = 0  # records of the log that are not copied
    difference: str = ""


class TopicVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a topic. `engine`: who folded the log, this process or Spark."""

    topic: str
    engine: RoundEngine
    partitions: tuple[PartitionVerification, ...]

    @property
    def equal(self) -> bool:
        return not any(partition.difference for partition in self.partitions)

    def check(self) -> None:
        """Errors: `Differs` with the first difference."""
        for partition in self.partitions:
            if partition.difference:
                raise Differs(
                    f"The copy of {partition.topic}/{partition.partition} is not what the log says: {partition.difference}",
                    hint=f"Make it anew with `headwater journal rebuild {partition.topic}`.",
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
    bases: JournalBases | None = None,
) -> TopicVerification:
    """Compare every partition up to its pointer. `spark`: None keeps the work here. `bases`: from which the fold of a log begins that no
    longer begins at 0.

    Errors: `LogGap` where the log no longer begins at 0 and no base leads up to it; `Unavailable` where a copy is being made anew;
    `UnreadableRecord`; `Cancelled`; those of the log, the store and Spark.
    """
    control, cancel = ControlLog(log, topic.name), cancel or threading.Event()
    control.look()
    snapshots = snapshots_of(log, topic)
    controls = tuple(_controls(control, topic, snapshots, number) for number in range(topic.partitions))
    total = sum(log.bounds(topic.name, number).end for number in range(topic.partitions))
    if spark is not None and spark.allowed and total >= large:
        folder = None if bases is None else bases.folder
        with signed(store, address, local=spark.local) as sign:
            worker = partial(verify_in_task, address, topic, snapshots, controls, bases=folder, sign=sign)
            outcomes = _verify_on_spark(log, topic, spark, worker, cancel)
        return TopicVerification(topic=topic.name, engine="spark", partitions=tuple(outcomes))
    verified: list[PartitionVerification] = []
    before = 0
    for number in range(topic.partitions):
        verification = verify_partition(
            log,
            store,
            topic,
            number,
            snapshots=snapshots,
            controls=controls[number],
            stopped=cancel.is_set,
            bases=bases,
            folded=lambda done, before=before: report(before + done, total),  # type: ignore[misc]
        )
        before += verification.pointer + 1
        report(before, total)
        verified.append(verification)
    return TopicVerification(topic=topic.name, engine="here", partitions=tuple(verified))


def verify_partition(
    log: Log,
    store: JournalStore,
    topic: JournalTopic,
    partition: int,
    *,
    snapshots: JournalTopic | None = None,
    controls: Controls = (NOTHING, NOTHING),
    stopped: Callable[[], bool] = lambda: False,
    bases: JournalBases | None = None,
    folder: Path | None = None,
    folded: Callable[[int], None] = lambda records: None,
) -> PartitionVerification:
    """Compare one partition's copy with what the log says up to its pointer. Errors: as `verify_topic`.

    `snapshots`: the topic of its snapshots, None where there is none. `controls`: what is decided about journals and about snapshots.
    `folded`: told from time to time how many records are folded. `folder`: an empty one in which what the log says is left, as a store of
    SQLite files, closed and synced; snapshots that the log has deleted and no base has are left there as the copy has them. Without
    `folder`, and with `bases`, such snapshots are not compared.
    """
    copy = store.partition(topic.name, partition, topic.generation, create=False)
    nothing = PartitionVerification(topic=topic.name, partition=partition, pointer=-1)
    snapshots = snapshots if snapshots is not None and partition < snapshots.partitions else None
    if any(
        remake_pending(store, journal_topic, partition, control)
        for journal_topic, control in zip((topic, snapshots), controls, strict=True)
        if journal_topic
    ):
        raise Unavailable(f"The copy of {topic.name}/{partition} is being made anew.", hint="Verify it once the replicator has done that.")
    start, note = log.bounds(topic.name, partition).start, None
    if copy is None or copy.pointer().offset < 0:
        if start > 0:
            raise gap(topic.name, partition, 0, start)
        return msgspec.structs.replace(nothing, waiting=log.bounds(topic.name, partition).end)
    if start > 0:
        if bases is None:
            raise gap(topic.name, partition, 0, start)
        note = bases.usable(log, topic, partition)
        if note.pointer > copy.pointer().offset:
            raise Differs(
                f"The copy of {topic.name}/{partition} ends at offset {copy.pointer().offset}, and its base at {note.pointer}.",
                hint=f"It is older. Let it begin with the base: `headwater journal rebuild {topic.name}`.",
            )
    known = bases
    bases = bases or JournalBases(Path(os.devnull))
    counts = partition_counts(store, topic) if log.engine == "kafka" else ()
    with bases.scratch(note, folder=folder) as scratch_folder, open_store(StoreAddress(folder=scratch_folder)) as scratch:
        if snapshots is not None and not begin_rings(
            log, store, scratch, snapshots, partition, bases=known, taken=folder is not None, counts=counts
        ):
            snapshots = None

        def fold(journal_topic: JournalTopic, end: int, control: PartitionControl) -> None:
            task = PartitionTask(
                topic=journal_topic.name,
                partition=partition,
                generation=journal_topic.generation,
                end=end,
                skip=control.quarantined,
                counts=counts,
                holds=journal_topic.holds,
            )
            _fold(log, scratch, task, end, stopped, folded)

        fold(topic, copy.pointer().offset + 1, controls[0])
        with copy.view() as view:
            fold(topic, view.pointer.offset + 1, controls[0])  # the replicator has gone on: only little is left while the view is held
            expected = scratch.partition(topic.name, partition, topic.generation)
            assert expected is not None
            with expected.view() as wanted:
                verification = _compared(msgspec.structs.replace(nothing, pointer=view.pointer.offset), wanted, view)
        if not verification.difference and snapshots is not None:
            count, difference = verify_rings(log, store, scratch, topic, snapshots, partition, controls=controls, fold=fold)
            rings = scratch.snapshots(snapshots.name, partition, snapshots.generation)
            assert rings is not None
            at = rings.pointer().offset
            verification = msgspec.structs.replace(
                verification, snapshots=count, difference=difference, folded_snapshots=at, of_snapshots=snapshots.generation
            )
        expected.checkpoint()
        waiting = max(0, log.bounds(topic.name, partition).end - verification.pointer - 1)
        return msgspec.structs.replace(verification, folded=expected.pointer().offset, waiting=waiting)


def _controls(control: ControlLog, topic: JournalTopic, snapshots: JournalTopic | None, partition: int) -> Controls:
    of_snapshots = NOTHING if snapshots is None else control.partition(snapshots.generation, partition)
    return control.partition(topic.generation, partition), of_snapshots


def _fold(
    log: Log, scratch: JournalStore, task: PartitionTask, end: int, stopped: Callable[[], bool], folded: Callable[[int], None]
) -> None:
    done = 0
    while True:
        outcome = copy_partition(log, scratch, msgspec.structs.replace(task, end=min(end, done + _STEP)), stopped=stopped)
        done = max(done + _STEP, (outcome.pointer or 0) + 1)
        if outcome.problem is not None or done >= end or stopped():
            break
        folded(done)
    if outcome.problem is not None:
        raise Differs(
            f"The log of {task.topic}/{task.partition} cannot be folded up to the store's pointer {end - 1}: {outcome.problem.message}",
            hint=outcome.problem.hint,
        )
    if stopped():
        raise Cancelled("The comparison was cancelled.", hint="Start it again.")


def _compared(start: PartitionVerification, wanted: PartitionView, view: PartitionView) -> PartitionVerification:
    journals = rows = 0
    for expected, actual in zip_longest(_heads(wanted), _heads(view)):
        if expected is None or actual is None or expected[0] != actual[0]:
            missing = expected is not None and (actual is None or expected[0].encode() < actual[0].encode())
            id = (expected if missing else actual or expected or ("",))[0]
            says = "the store lacks it" if missing else "the log has no such journal"
            return msgspec.structs.replace(start, journals=journals, rows=rows, difference=f"Journal {id!r}: {says}.")
        (id, head), (_, stored) = expected, actual
        if head_content(id, head) != head_content(id, stored):
            return msgspec.structs.replace(start, journals=journals, rows=rows, difference=_head_difference(id, head, stored))
        journals += 1
        for row, stored_row in zip_longest(_rows(wanted, id, head), _rows(view, id, stored), fillvalue=_END):
            if row != stored_row:
                number = (stored_row if row is _END else row)[1]  # type: ignore[index]
                says = (
                    "the store lacks it"
                    if stored_row is _END
                    else "the log does not hold it"
                    if row is _END
                    else f"{stored_row} instead of {row}"
                )
                return msgspec.structs.replace(
                    start, journals=journals, rows=rows, difference=f"Journal {id!r}, event {number}: {says:.1000}."
                )
            rows += 1
    difference = _moved_difference(wanted, view)
    return msgspec.structs.replace(start, journals=journals, rows=rows, difference=difference)


def _moved_difference(wanted: PartitionView, view: PartitionView) -> str:
    """Of what is noted about journals whose older records lie in another partition. One that was copied before the topic's growth was
    noticed has no note."""
    noted, expected = dict(view.all_moved()), dict(wanted.all_moved())
    wrong = next((id for id, fold in noted.items() if fold.offset >= 0 and expected.get(id) != fold), None)
    return "" if wrong is None else f"Journal {wrong!r}: what is noted of its records here is not what the log says."


def _heads(view: PartitionView) -> Iterator[tuple[str, Head]]:
    after: str | None = None
    while page := view.heads(after):
        yield from page
        after = page[-1][0]


def _rows(view: PartitionView, id: str, head: Head) -> Iterator[tuple[object, ...]]:
    for rows in view.rows(id, head, 1):
        yield from map(row_content, rows)


def _head_difference(id: str, wanted: Head, stored: Head) -> str:
    fields = [name for name in Head.__struct_fields__ if name != "segment_size" and getattr(wanted, name) != getattr(stored, name)]
    parts = [f"{name} is {getattr(stored, name)}, not {getattr(wanted, name)}" for name in fields]
    return f"Journal {id!r}, head: {', '.join(parts)}."


def _verify_on_spark(
    log: Log, topic: JournalTopic, spark: LazySpark, worker: Callable[[Log, Range], pa.RecordBatch], cancel: threading.Event
) -> list[PartitionVerification]:
    from headwater.spark.ranges import Range

    ranges = [Range(topic.name, number, 0, log.bounds(topic.name, number).end) for number in range(topic.partitions)]
    tables = spark.runner().run(ranges, worker, schema=result_schema(), cancel=cancel)
    return [msgspec.json.decode(table.column("result")[0].as_py(), type=PartitionVerification) for table in tables]


def verify_in_task(
    address: StoreAddress,
    topic: JournalTopic,
    snapshots: JournalTopic | None,
    controls: tuple[Controls, ...],
    log: Log,
    given: Range,
    *,
    bases: Path | None = None,
    sign: Sign = NO_SIGN,
) -> pa.RecordBatch:
    """Runs inside a Spark task: `verify_partition` of the range's partition. Errors: also `BadConfig` for a store that lacks the sign."""
    import pyarrow as pa

    with open_store(address) as store, uncollected():
        check_sign(store, address, sign)
        verification = verify_partition(
            log,
            store,
            topic,
            given.partition,
            snapshots=snapshots,
            controls=controls[given.partition],
            bases=None if bases is None else JournalBases(bases),
        )
    return pa.RecordBatch.from_pydict({"result": [msgspec.json.encode(verification)]}, schema=result_schema())


def write_bases(
    log: Log,
    store: JournalStore,
    topic: JournalTopic,
    *,
    address: StoreAddress,
    bases: JournalBases,
    stopped: Callable[[], bool] = lambda: False,
    dry_run: bool = False,
) -> list[tuple[PartitionVerification, BaseNote | None]]:
    """Verify the copy of every partition, and keep what was verified as its base. A partition of which nothing is copied gets none.

    Errors: those of `verify_topic`, `Differs` among them; partitions that were done by then have their new bases, the others their old
    ones.
    """
    control, snapshots = ControlLog(log, topic.name), snapshots_of(log, topic)
    control.look()
    verified: list[tuple[PartitionVerification, BaseNote | None]] = []
    with bases.writing(topic) as home:
        for number in range(topic.partitions):
            folder = home / str(number)
            folder.mkdir()
            verification = verify_partition(
                log,
                store,
                topic,
                number,
                snapshots=snapshots,
                controls=_controls(control, topic, snapshots, number),
                stopped=stopped,
                bases=bases,
                folder=folder,
            )
            TopicVerification(topic=topic.name, engine="here", partitions=(verification,)).check()
            written = None
            if verification.pointer >= 0 and not dry_run:
                rings = (
                    BaseSnapshots(verification.of_snapshots, verification.folded_snapshots, verification.snapshots)
                    if verification.of_snapshots
                    else None
                )
                written = bases.adopt(
                    topic,
                    number,
                    folder,
                    pointer=verification.folded,
                    journals=verification.journals,
                    events=verification.rows,
                    snapshots=rings,
                )
            verified.append((verification, written))
    return verified
