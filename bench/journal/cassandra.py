"""Rows of events into a real Cassandra: a batch for each journal and segment, against the same rows one by one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import headwater.journal
from bench import mark
from bench.case import Case, Sample, Side, Skipped
from bench.journal.filled import fill
from bench.journal.opened import JOURNALS
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.clock import SystemClock
from headwater.core.errors import Differs, HeadwaterError, Unavailable
from headwater.core.ids import random_id
from headwater.core.settings import CassandraSettings
from headwater.journal.cassandra_rows import head_values, row_values
from headwater.journal.change import PartitionChange
from headwater.journal.head import applied
from headwater.journal.range_fold import fold_range
from headwater.journal.store import head_segment
from headwater.log.embedded.log import EmbeddedLog
from headwater.store.statements import read_statements

if TYPE_CHECKING:
    from headwater.journal.cassandra import CassandraJournalStore
    from headwater.store.cassandra.keyspace import Keyspace

_EVENTS = 10  # of a journal
_CONCURRENCY = 100  # as the driver does where nobody says otherwise
_STATEMENTS = read_statements(Path(headwater.journal.__file__).with_name("cassandra.cql"))
_SEGMENTS = 100  # of heads, over which the store spreads them
_SIZE = 10_000  # events of a segment


def cassandra(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Ready changes against ready rows, into the same table of one node."""
    name = "journal rows into Cassandra"
    try:
        with place.sub("cassandra") as folder, _node() as settings:
            change = _change(folder, max(1, sizes.jobs // _EVENTS))
            with _Tables.opened(settings, change) as tables:
                ours, rows = Side("a batch per journal and segment", tables.batches), Side("execute_concurrent", tables.one_by_one)
                yield Case(name, "event", ours, rows, mark.ratio(3), rounds=sizes.few)
                yield Case(
                    f"{name}, processor time of the client",
                    "event",
                    Side(ours.label, partial(_by_processor, tables.batches)),
                    Side(rows.label, partial(_by_processor, tables.one_by_one)),
                    rounds=sizes.few,
                )
    except Unavailable as problem:
        yield Skipped(name, str(problem))


def _by_processor(work: Any) -> Sample:
    sample: Sample = work()
    return Sample(sample.amount, sample.cpu, sample.cpu)


@contextmanager
def _node() -> Iterator[CassandraSettings]:
    """A node that runs already, or one that is stopped afterwards. Errors: `Unavailable`."""
    from tools.services import release, up
    from tools.services.process import current

    me = current()
    try:
        from headwater.store.cassandra.library import library

        library()
        host, port = up("cassandra", kept=False, user=me).cassandra
    except (HeadwaterError, ImportError) as problem:
        raise Unavailable(str(problem), hint="See `python -m tools.services up cassandra`.") from problem
    try:
        yield CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=f"bench_{random_id()[:8].lower()}")
    finally:
        release(me)


def _change(folder: Path, journals: int) -> PartitionChange:
    """The change of a log with so many journals."""
    fill(folder, journals=journals, events=_EVENTS, partitions=1)
    with EmbeddedLog(folder) as log:
        end, generation = log.bounds(JOURNALS, 0).end, log.topic(JOURNALS).generation
        records = [record for at in range(0, end, 1000) for record in log.read(JOURNALS, 0, at, limit=1000)]
    folded = fold_range(topic=JOURNALS, partition=0, generation=generation, start=0, end=end, records=records, claimed=False)
    return folded.change


class _Tables:
    """A keyspace of its own. Every round writes a topic of its own: rows that are there would be overwritten."""

    def __init__(self, keyspace: Keyspace, store: CassandraJournalStore, change: PartitionChange) -> None:
        self._keyspace, self._store, self._change = keyspace, store, change
        self._numbers = itertools.count()
        self._rows = [row for journal in change.journals for row in journal.rows]

    @classmethod
    @contextmanager
    def opened(cls, settings: CassandraSettings, change: PartitionChange) -> Iterator[_Tables]:
        from headwater.journal.cassandra import CassandraJournalStore
        from headwater.store.cassandra.keyspace import Keyspace

        keyspace = Keyspace(settings, clock=SystemClock())
        with CassandraJournalStore(keyspace) as store:
            try:
                yield cls(keyspace, store, change)
            finally:
                keyspace.run(f"drop keyspace {settings.keyspace}")

    def batches(self) -> Sample:
        """As replication applies a change: it looks for heads, and writes rows, heads and the pointer."""
        change = msgspec.structs.replace(self._change, topic=f"journal-ours-{next(self._numbers)}")
        copy = self._store.partition(change.topic, change.partition, change.generation)
        assert copy is not None
        cpu, begun = time.process_time(), time.perf_counter()
        if not copy.apply(change):
            raise Differs("The change was not applied.", hint="Use a topic that is new.")
        return Sample(len(self._rows), time.perf_counter() - begun, time.process_time() - cpu)

    def one_by_one(self) -> Sample:
        """The same rows and heads, each by a request of its own. Nothing is looked for."""
        from cassandra.concurrent import execute_concurrent

        topic = f"journal-rows-{next(self._numbers)}"
        insert_row, insert_head = (self._keyspace.prepared(_STATEMENTS[name]) for name in ("insert_row", "insert_head"))
        requests: list[tuple[Any, Any]] = []
        for journal in self._change.journals:
            head = applied(journal.fold, None, partition=0, generation=self._change.generation, segment_size=_SIZE)
            assert head is not None
            requests += [(insert_row, row_values(topic, journal.id, head, row, 1)) for row in journal.rows]
            segment = head_segment(journal.id, _SEGMENTS)
            requests.append((insert_head, head_values(topic, segment, journal.id, head, before="", time=1, replaces=False)))
        cpu, begun = time.process_time(), time.perf_counter()
        done = execute_concurrent(self._keyspace.session, requests, concurrency=_CONCURRENCY, raise_on_first_error=True)
        sample = Sample(len(self._rows), time.perf_counter() - begun, time.process_time() - cpu)
        if (written := sum(result.success for result in done)) != len(requests):
            raise Differs(f"{written} rows were written, not {len(requests)}.", hint="See the node's log.")
        return sample
