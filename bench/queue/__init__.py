"""The work queue: in one process beside the bare log, by HTTP, and beside PostgreSQL and what others have built on it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.case import Case, Skipped
from bench.place import Place
from bench.queue.beside import beside
from bench.queue.by_http import by_http
from bench.queue.calls import calls
from bench.queue.dates import dates
from bench.queue.holding import holding
from bench.sizes import Sizes


def queue(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """In one process; beside other queues; by HTTP; then what dates and many rows cost."""
    yield from calls(place, sizes)
    yield from beside(place, sizes)
    yield from by_http(place, sizes)
    yield from dates(place, sizes)
    yield from holding(place, sizes)
