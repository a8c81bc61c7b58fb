"""What a PostgreSQL sink remembers: which offsets it has taken, and which run may write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.core.errors import Fenced
from headwater.pipeline.adaptor import Part
from headwater.pipeline.systems.postgres import sql as sql
from headwater.pipeline.systems.postgres.link import library
from headwater.pipeline.systems.postgres.tables import COMMITTED, quote
from headwater.pipeline.systems.sql.ranges import Taken, compacted, whole

if TYPE_CHECKING:
    from headwater.pipeline.systems.postgres.link import Connection

MANY = 1000  # rows about committed batches, above which they are put together


def make_state(link: Connection, state: str) -> None:
    """The two tables, where they are missing."""
    there = link.execute("SELECT to_regclass(%s)", (f"{quote(state)}.{COMMITTED}",)).fetchone()
    if there is None or there[0] is None:
        try:
            link.execute(sql.CREATE_STATE.format(state=quote(state)))
        except (library().errors.UniqueViolation, library().errors.DuplicateTable):
            pass  # another task was quicker


def begin(link: Connection, state: str, pipeline: str, sink: str, epoch: int) -> list[tuple[int, int]]:
    """Shut older runs out; return what is taken."""
    make_state(link, state)
    with link.transaction():
        _claim(link, state, pipeline, sink, epoch)
        return whole(_compact(link, state, pipeline, sink))


def forget(link: Connection, state: str, pipeline: str, sink: str, position: int, epoch: int) -> None:
    """What is taken is now everything up to the position, and nothing behind it."""
    make_state(link, state)
    with link.transaction():
        _claim(link, state, pipeline, sink, epoch)
        _rewrite(link, state, pipeline, sink, [Taken(0, position + 1)] if position >= 0 else [])


def tidy(link: Connection, state: str, part: Part) -> None:
    """Keep the table of committed batches small while a run goes on for weeks."""
    row = link.execute(f"SELECT count(*) FROM ({sql.READ_TAKEN.format(state=quote(state))}) r", (part.pipeline, part.sink)).fetchone()
    if row is not None and row[0] > MANY:
        with link.transaction():
            # The lock is the writers' own, taken the other way: they wait, and so does this for those under way.
            text = sql.READ_EPOCH.replace("FOR SHARE", "FOR UPDATE").format(state=quote(state))
            held = link.execute(text, (part.pipeline, part.sink)).fetchone()
            if held is not None and held[0] == part.epoch:
                _compact(link, state, part.pipeline, part.sink)


def fenced(pipeline: str, newer: int, own: int) -> Fenced:
    return Fenced(f"Run {newer} of {pipeline} writes to this sink now; this is run {own}.", hint="See `headwater pipeline status`.")


def _claim(link: Connection, state: str, pipeline: str, sink: str, epoch: int) -> None:
    if link.execute(sql.CLAIM_EPOCH.format(state=quote(state)), (pipeline, sink, epoch)).fetchone() is None:
        row = link.execute(sql.READ_EPOCH.format(state=quote(state)), (pipeline, sink)).fetchone()
        raise fenced(pipeline, row[0] if row else -1, epoch)


def _compact(link: Connection, state: str, pipeline: str, sink: str) -> list[Taken]:
    rows = [Taken(*row) for row in link.execute(sql.READ_TAKEN.format(state=quote(state)), (pipeline, sink))]
    fewer = compacted(rows)
    if len(fewer) < len(rows):
        _rewrite(link, state, pipeline, sink, fewer)
    return fewer


def _rewrite(link: Connection, state: str, pipeline: str, sink: str, rows: Sequence[Taken]) -> None:
    link.execute(sql.CLEAR_TAKEN.format(state=quote(state)), (pipeline, sink))
    for row in rows:
        link.execute(sql.TAKE.format(state=quote(state)), (pipeline, sink, row.start, row.end, row.bucket, row.buckets))
