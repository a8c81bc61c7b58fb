"""Event journals: appends, reads, and what copies them, beside the bare log, bare SQL, `eventsourcing` and Spark alone."""

from __future__ import annotations

from collections.abc import Iterator

from bench.case import Case, Skipped
from bench.journal.appending import appending, sweep
from bench.journal.beside import beside
from bench.journal.cassandra import cassandra
from bench.journal.copying import copying
from bench.journal.holding import holding
from bench.journal.lag import lag
from bench.journal.reading import reading
from bench.place import Place
from bench.sizes import Sizes


def journal(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Appends and reads in one process; beside another library; then copies of the log, and those who make them."""
    yield from appending(place, sizes)
    yield from sweep(place, sizes)
    yield from reading(place, sizes)
    yield from beside(place, sizes)
    yield from lag(place, sizes)
    yield from holding(place, sizes)
    yield from copying(place, sizes)
    yield from cassandra(place, sizes)
