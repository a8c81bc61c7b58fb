"""What a MySQL sink remembers: which offsets it has taken, and which run may write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.core.errors import Fenced
from headwater.pipeline.adaptor import Part
from headwater.pipeline.systems.mysql import sql as sql
from headwater.pipeline.systems.mysql.link import ask, do
from headwater.pipeline.systems.mysql.tables import COMMITTED
from headwater.pipeline.systems.sql.ranges import Taken, compacted, whole

MANY = 1000  # rows about committed batches, above which they are put together


@contextmanager
def transaction(link: Any) -> Iterator[None]:
    """All or nothing. A connection that is lost undoes it by itself."""
    link.begin()
    try:
        yield
    except BaseException:
        if link.open:
            link.rollback()
        raise
    link.commit()


def make_state(link: Any) -> None:
    """The two tables, where they are missing."""
    if not ask(link, "SHOW TABLES LIKE %s", (COMMITTED,)):
        for statement in sql.CREATE_STATE:
            do(link, statement)


def begin(link: Any, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]]:
    """Shut older runs out; return what is taken."""
    make_state(link)
    with transaction(link):
        _claim(link, pipeline, sink, epoch)
        return whole(_compact(link, pipeline, sink))


def forget(link: Any, pipeline: str, sink: str, position: int, epoch: int) -> None:
    """What is taken is now everything up to the position, and nothing behind it."""
    make_state(link)
    with transaction(link):
        _claim(link, pipeline, sink, epoch)
        _rewrite(link, pipeline, sink, [Taken(0, position + 1)] if position >= 0 else [])


def tidy(link: Any, part: Part) -> None:
    """Keep the table of committed batches small while a run goes on for weeks."""
    me = (part.pipeline, part.sink)
    if ask(link, sql.COUNT_TAKEN, me)[0][0] > MANY:
        with transaction(link):
            held = ask(link, sql.LOCK_EPOCH, me)
            if held and held[0][0] == part.epoch:
                _compact(link, *me)


def fenced(pipeline: str, newer: int, own: int) -> Fenced:
    return Fenced(f"Run {newer} of {pipeline} writes to this sink now; this is run {own}.", hint="See `headwater pipeline status`.")


def _claim(link: Any, pipeline: str, sink: str, epoch: int) -> None:
    do(link, sql.FIRST_EPOCH, (pipeline, sink, epoch))
    known = ask(link, sql.LOCK_EPOCH, (pipeline, sink))[0][0]
    if known > epoch:
        raise fenced(pipeline, known, epoch)
    do(link, sql.SET_EPOCH, (epoch, pipeline, sink))


def _compact(link: Any, pipeline: str, sink: str) -> list[Taken]:
    rows = [Taken(*row) for row in ask(link, sql.READ_TAKEN, (pipeline, sink))]
    fewer = compacted(rows)
    if len(fewer) < len(rows):
        _rewrite(link, pipeline, sink, fewer)
    return fewer


def _rewrite(link: Any, pipeline: str, sink: str, rows: Sequence[Taken]) -> None:
    do(link, sql.CLEAR_TAKEN, (pipeline, sink))
    for row in rows:
        do(link, sql.TAKE, (pipeline, sink, row.start, row.end, row.bucket, row.buckets))
