"""Decides what becomes of a row that is to run now, whatever its date: it is written whole, with the date of now. Pure."""

from __future__ import annotations

from headwater.core.errors import Conflict
from headwater.queue.body import process_of, with_process
from headwater.queue.columns import NO_EXTRAS, PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.records import MERGE, encode_whole
from headwater.queue.row_view import whole_row
from headwater.queue.schedule import schedule_of


def run_now(fold: QueueFold, slot: int, now: int) -> list[bytes]:
    """Let a waiting row be due; the changes of the record. A row with a schedule runs once more: the run that it waited for comes, too.

    Nothing changes for a row that is due already. Errors: `Conflict` for one that is being processed.
    """
    row = whole_row(fold, slot)
    if fold.columns.states[slot] == PROCESSING:
        raise Conflict(f"Row {row.id} is being processed.", hint="Put its key again: that makes a row which runs when this one is done.")
    if process_of(row.body) <= now:
        return []
    extras = dict(row.extras)
    known = fold.columns.extras.get(slot, NO_EXTRAS)
    if known.recurs:  # the run behind this one is the one that it waits for now
        extras["run"] = max(0, known.run - schedule_of(known.schedule).every) if schedule_of(known.schedule).every else now
    prompt = row._replace(body=with_process(row.body, now), extras=extras)
    fold.write(prompt)
    return [encode_whole(MERGE, prompt)]
