"""How much a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of one run. `full` is what marks are judged by; `quick` shows the order of magnitude; tests use smaller ones yet."""

    name: str
    minutes: float  # of load on a server whose memory is watched
    probes: int  # syncs that tell how fast the disk is
    rounds: int
    turns: int  # rounds of short work on the disk: many short ones see the same moods of the disk on both sides
    appends: dict[int, int]  # records per sync → syncs per round
    encoded: int  # records that are encoded per round
    scattered: int  # records per round that are read by offset, a hundred at a time
    callers: int  # appends per round and kind of caller
    batches: int  # batches of 100 that each process appends per round
    records: int  # in a log that is scanned, checked or compacted
    large: int  # records of the large log that is opened again
    load: int  # records that a process appends before it is killed
    kafka: int  # records per round
    spark: int  # records that Spark reads
    documents: int  # that a pipeline copies
    steps: int  # messages that go one at a time
    idle: float  # seconds of waiting whose processor time is measured
    streams: int  # that wait
    delays: int  # records whose way to a reader is timed
    tables: int  # of a region
    entries: int  # records of a region's log
    live: int  # of them, those that are not flushed
    marks: int  # while writes are timed
    memory: int  # documents of a run whose memory is watched; a second one has four times as many
    queued: int  # rows of a queue that is opened again
    finished: int  # rows that went through it before
    future: int  # rows of a queue that are not due
    jobs: int  # rows per round that workers finish, beside other queues
    journals: int  # entities that are read
    copied: int  # events that a round of replication copies
    backlog: int  # records that a replicator finds whose memory is watched; a second one finds a quarter of them
    lag: float  # seconds of appends whose way into the store is timed
    items: int  # of a collection whose pages are read

    @property
    def few(self) -> int:
        """Rounds of what takes long."""
        return max(1, self.rounds // 2)

    @property
    def rare(self) -> int:
        """Rounds of what takes very long."""
        return max(1, self.rounds // 5)


FULL = Sizes(
    name="full",
    minutes=30,
    probes=200,
    rounds=15,
    turns=200,
    appends={1: 25, 10: 25, 100: 20, 1000: 10},
    encoded=100_000,
    scattered=20_000,
    callers=20_000,
    batches=100,
    records=1_000_000,
    large=10_000_000,
    load=500_000,
    kafka=50_000,
    spark=2_000_000,
    documents=1_000_000,
    steps=2_000,
    idle=20.0,
    streams=1000,
    delays=1000,
    tables=1000,
    entries=5_000_000,
    live=1_000_000,
    marks=1000,
    memory=1_000_000,
    queued=1_000_000,
    finished=10_000_000,
    future=100_000,
    jobs=20_000,
    journals=5_000,
    copied=400_000,
    backlog=1_000_000,
    lag=20.0,
    items=100_000,
)
QUICK = Sizes(
    name="quick",
    minutes=2,
    probes=100,
    rounds=5,
    turns=41,
    appends={1: 25, 10: 25, 100: 20, 1000: 10},
    encoded=20_000,
    scattered=5_000,
    callers=5_000,
    batches=40,
    records=200_000,
    large=1_000_000,
    load=100_000,
    kafka=10_000,
    spark=500_000,
    documents=200_000,
    steps=500,
    idle=5.0,
    streams=1000,
    delays=300,
    tables=1000,
    entries=1_000_000,
    live=200_000,
    marks=300,
    memory=200_000,
    queued=100_000,
    finished=1_000_000,
    future=100_000,
    jobs=4_000,
    journals=1_000,
    copied=100_000,
    backlog=200_000,
    lag=5.0,
    items=100_000,
)
TINY = Sizes(
    name="tiny",
    minutes=0.1,
    probes=5,
    rounds=1,
    turns=2,
    appends={1: 3, 10: 2, 100: 2, 1000: 1},
    encoded=2_000,
    scattered=200,
    callers=40,
    batches=2,
    records=3_000,
    large=4_000,
    load=2_000,
    kafka=200,
    spark=1_000,
    documents=300,
    steps=5,
    idle=0.2,
    streams=5,
    delays=5,
    tables=5,
    entries=500,
    live=100,
    marks=10,
    memory=300,
    queued=300,
    finished=1_000,
    future=200,
    jobs=100,
    journals=20,
    copied=2_000,
    backlog=2_000,
    lag=0.5,
    items=200,
)
