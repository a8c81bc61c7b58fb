"""A replicator put together from the settings: log, store, rounds, lock, status and daily work. For `headwater journal replicate`, and for
the child of a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random

import msgspec

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import Clock
from headwater.core.errors import HeadwaterError
from headwater.core.files import Files, make_dirs
from headwater.core.settings import Settings
from headwater.journal.base import FOLDER as BASES
from headwater.journal.base import JournalBases
from headwater.journal.chores import Chores
from headwater.journal.discovery import Discovery
from headwater.journal.leader import GroupReplicatorLock, LocalReplicatorLock, ReplicatorLock
from headwater.journal.loop import ReplicatorLoop
from headwater.journal.replicate import RoundOutcome, Rounds, small_of
from headwater.journal.replicator_metrics import MetricsFile, ReplicatorMetrics
from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.status import ReplicatorStatus, StatusFile
from headwater.journal.store_address import open_store, store_address_of
from headwater.log import Log
from headwater.log.opening import address_of, open_log

FOLDER = "replicator"
"""Below the data directory: the lock and the status."""


def lock_path(data: Path) -> Path:
    """The lock of the replicator of a data directory."""
    return data / FOLDER / "lock"


def metrics_file(data: Path) -> MetricsFile:
    """What the replicator of a data directory has counted."""
    return MetricsFile(data / FOLDER / "metrics.txt")


def status_file(data: Path, *, files: Files | None = None) -> StatusFile:
    """What the replicator of a data directory says about itself."""
    return StatusFile(data / FOLDER / "status.json", files=files)


@contextmanager
def replicator(
    settings: Settings,
    *,
    clock: Clock,
    random: Random,
    stopping: threading.Event,
    files: Files | None = None,
    ends_java: bool = False,
    copied: Callable[[RoundOutcome], None] = lambda outcome: None,
) -> Iterator[ReplicatorLoop]:
    """The replicator of the configured log and store, not yet running. Its daily work runs beside it until the block ends.

    Errors: those of opening the log and the store.
    """
    files, journal = files or Files(), JOURNAL_SECTION.of(settings)
    with ExitStack() as opened:
        log = opened.enter_context(open_log(address_of(settings), clock=clock))
        address = store_address_of(settings, settings.data)
        store = opened.enter_context(open_store(address))
        make_dirs(files, settings.data / FOLDER)
        lock = _lock(settings, log, clock, files, opened)
        status, metrics, counted = status_file(settings.data, files=files), ReplicatorMetrics(), metrics_file(settings.data)

        before = status.read()

        def report(loop_status: ReplicatorStatus) -> None:
            if loop_status.engine is None and before is not None:  # the last round was an earlier replicator's
                loop_status = msgspec.structs.replace(loop_status, engine=before.engine)
            _written(status, loop_status)
            metrics.stands(loop_status)
            with suppress(OSError):  # as of the status
                counted.write(metrics, loop_status.pid)

        def count(outcome: RoundOutcome) -> None:
            metrics.copied(outcome, clock.now_ms())
            copied(outcome)

        rounds = Rounds(
            log,
            store,
            address=address,
            spark=settings.spark,
            small=small_of(settings),
            clock=clock,
            stopping=stopping,
            ends_java=ends_java,
        )
        loop = ReplicatorLoop(
            log,
            store,
            rounds,
            Discovery(log, journal.prefixes),
            clock=clock,
            random=random,
            lock=lock,
            pause=journal.round.seconds,
            report=report,
            copied=count,
            stopping=stopping,
            bases=JournalBases(settings.data / BASES, files=files, clock=clock),
        )
        opened.callback(loop.close)
        discovery = Discovery(log, journal.prefixes)
        chores = Chores(log, store, discovery, keep=journal.keep, clock=clock, active=lambda: loop.active, expired=metrics.expired)
        opened.enter_context(chores.running(stopping))
        yield loop


def _lock(settings: Settings, log: Log, clock: Clock, files: Files, opened: ExitStack) -> ReplicatorLock:
    if log.engine == "kafka" and settings.store.engine == "cassandra":
        ownership = opened.enter_context(KafkaOwnership(log, group="headwater-replicators", stays=True, clock=clock))
        return GroupReplicatorLock(log, ownership, settings.cassandra.keyspace)
    return LocalReplicatorLock(lock_path(settings.data), files=files)


def _written(file: StatusFile, status: ReplicatorStatus) -> None:
    try:
        file.write(status)
    except (OSError, HeadwaterError):  # a hint for people: a full disk must not stop the copying, which may free it
        return
