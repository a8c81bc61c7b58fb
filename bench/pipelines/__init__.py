"""Pipelines beside others that move data: Spark alone, and dlt. What is measured of the log alone is in the modules above."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.case import Case, Skipped
from bench.peers.dlt import Dlt, started
from bench.pipelines.columns import columns
from bench.pipelines.delivery import delivery
from bench.pipelines.files import files
from bench.pipelines.kafka_copy import kafka_copy
from bench.pipelines.memory import memory
from bench.pipelines.moving import filled
from bench.pipelines.starts import starts
from bench.pipelines.tables import tables
from bench.pipelines.trickling import trickling
from bench.place import Place
from bench.sizes import Sizes
from headwater.core.errors import HeadwaterError, Unavailable


def pipelines(place: Place, sizes: Sizes) -> Iterator[Case | Skipped]:
    """Documents of about 165 bytes. Ours go through the log, which is synced; nobody else's do."""
    from headwater.spark import session

    try:
        running = session(archive="use")
    except HeadwaterError as problem:
        yield Skipped("pipelines", str(problem))
        return
    with place.sub("pipelines") as folder, ExitStack() as opened:
        dlt = _dlt(opened, folder)
        yield from files(folder, sizes, running, dlt)
        yield from columns(folder, sizes, running, dlt)
        yield from tables(folder, sizes, running, dlt)
        yield from kafka_copy(folder, sizes)
        with filled(folder, sizes.documents) as full:
            yield from delivery(folder, sizes, full)
            yield from starts(folder, sizes, full)
        yield from memory(folder, sizes)
        yield from trickling(folder, sizes)


def _dlt(opened: ExitStack, folder: Path) -> Dlt | str:
    """dlt, or the reason why there is none."""
    try:
        return opened.enter_context(started(folder))
    except Unavailable as problem:
        return str(problem)
