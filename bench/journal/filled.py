"""Data directories with journals in the log, and with a copy of them in the store. Nothing of it is timed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench.journal.opened import JOURNALS, PARTITIONS, PAYLOAD, id_of
from bench.place import Unsynced, sync_file
from headwater.core.clock import SystemClock
from headwater.core.errors import Differs
from headwater.core.settings import Settings, SparkSettings
from headwater.journal.append_draft import draft, header_ending
from headwater.journal.replicator import replicator
from headwater.journal.settings import JournalSettings
from headwater.journal.topics import PART, JournalTopics
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.partitioner import partition_for
from headwater.log.record import Record

_AT_ONCE = 1000  # records of a batch
_ACTIVE = 1000  # journals
_BY = ("bench", "1")  # origin and version, as an Append through the door names them


def fill(data: Path, *, journals: int, events: int, per_append: int = 1, partitions: int = PARTITIONS) -> None:
    """Journals with so many events each. A thousand of them are active at a time, and are appended to in turns."""
    with EmbeddedLog(data, files=Unsynced()) as log:
        JournalTopics(log, JournalSettings()).create(JOURNALS, partitions)
        waiting: list[list[Record]] = [[] for _ in range(partitions)]
        for number, record in _records(journals, events, per_append, partitions):
            waiting[number].append(record)
            if len(waiting[number]) == _AT_ONCE:
                log.append(JOURNALS, number, waiting[number], part=PART)
                waiting[number] = []
        for number, rest in enumerate(waiting):
            if rest:
                log.append(JOURNALS, number, rest, part=PART)
    for path in data.rglob("*.log"):  # what the disk still has to write would disturb the first rounds
        sync_file(path)


def _records(journals: int, events: int, per_append: int, partitions: int) -> Iterator[tuple[int, Record]]:
    ending = header_ending(*_BY)
    for begin in range(0, journals, _ACTIVE):
        active = range(begin, min(begin + _ACTIVE, journals))
        drafts = [draft(id_of(number), [PAYLOAD] * per_append, by=_BY) for number in active]
        places = [partition_for(entry.key, partitions) for entry in drafts]
        for first in range(1, events + 1, per_append):
            for place, entry in zip(places, drafts, strict=True):
                yield place, entry.record(first, ending)


def copy(data: Path) -> None:
    """Copy everything into the store, in this process. Errors: `Differs`."""
    settings = Settings(data=data, spark=SparkSettings(start="never"))
    with replicator(settings, clock=SystemClock(), random=Random(), stopping=threading.Event()) as loop:
        if not loop.catch_up():
            raise Differs("Some journals could not be copied.", hint="See `headwater journal replicate --once`.")


def store_file(data: Path, partition: int) -> Path:
    """The copy of a partition."""
    return data / "store" / "journal" / JOURNALS / f"{partition}.db"
