"""What becomes of rows with a schedule when a run has ended: they wait for the next one. Pure: the date goes into a record, `next`.

A run that nobody was there for is not left out: its row stays due. Once it is done, it waits for the first run behind now, so that
missed runs come once.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import BadInput
from headwater.queue.body import expiration_of, key_of
from headwater.queue.checks import MAX_DATE, CheckedRow
from headwater.queue.columns import NO_EXTRAS, Extras
from headwater.queue.fold import QueueFold
from headwater.queue.records import DONE, MERGE, NEXT, encode_dated, encode_rows, encode_whole
from headwater.queue.row_view import mergeable, whole_row
from headwater.queue.schedule import schedule_of


def following_run(extras: Extras, now: int) -> int:
    """The date of the run behind the one that a row has, and behind now.

    Where there is none, because this machine knows the zone no longer, or the calendar ends, it is the last date that there is: the row
    waits, and `schedules` shows it.
    """
    try:
        return min(schedule_of(extras.schedule).following(extras.run, now), MAX_DATE)
    except BadInput:
        return MAX_DATE


def end_run(fold: QueueFold, slot: int, now: int) -> Iterator[bytes]:
    """A run of a row with a schedule is done: the row waits for the next one, with no lost lease and no failure. The changes of the record.

    Where its key was put meanwhile, that row has the schedule now, and runs at its own date. A row that expires before its next run goes.
    """
    extras, row = fold.columns.extras[slot], whole_row(fold, slot)
    key, run = key_of(row.body), following_run(extras, now)
    follows = key in fold.follow_ups
    if follows or _expires_before(row.body, run):
        yield encode_rows(DONE, [(slot, row.id)])
        fold.done(slot)
        if follows:
            yield from _inherit(fold, key, extras)
    else:
        yield encode_dated(NEXT, run, [(slot, row.id)])
        fold.run_again(slot, run)


def row_after(fold: QueueFold, dead: int, extras: Extras, now: int) -> CheckedRow | Iterator[bytes]:
    """A row with a schedule, its `extras`, is dead: the row to insert for the next run. Where its key was put meanwhile, the changes by
    which that row has the schedule; none where the dead row expires before its next run."""
    body, run = fold.columns.bodies[dead], following_run(extras, now)
    key = key_of(body)
    if fold.by_key.find(key) is not None:
        return _inherit(fold, key, extras)
    if _expires_before(body, run):
        return iter(())
    row = mergeable(whole_row(fold, dead))
    dates = (row.update, run, row.expiration)
    made = CheckedRow(key, row.data, row.form, row.priority, *dates, row.declaration, row.lane, raised=False, schedule=extras.schedule)
    made.unique_for = row.unique_for
    return made


def _inherit(fold: QueueFold, key: bytes, extras: Extras) -> Iterator[bytes]:
    """The row that has followed another one has its schedule, unless its put has said otherwise."""
    slot = fold.by_key.find(key)
    assert slot is not None
    if not fold.columns.extras.get(slot, NO_EXTRAS).schedule:
        row = whole_row(fold, slot)
        heir = row._replace(extras={**row.extras, "schedule": extras.schedule, "run": extras.run})
        yield encode_whole(MERGE, heir)
        fold.write(heir)


def _expires_before(body: bytes, run: int) -> bool:
    return 0 < expiration_of(body) <= run
