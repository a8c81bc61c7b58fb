"""Claims many rows, and removes many that are done, in few steps for each. What is out of the ordinary is left to the general way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, repeat

from headwater.queue.body import BINARY, BODY_SIZE, FLAGS
from headwater.queue.columns import PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.key_index import WHOLE_KEY
from headwater.queue.records import MOST_ROWS, SlotId
from headwater.queue.row_view import claimed_rows
from headwater.queue.values import ClaimedRow


def claim_many(fold: QueueFold, n: int, until: int, group: str, worker: str) -> tuple[list[SlotId], list[ClaimedRow]]:
    """Claim up to `n` rows below the slow band, in their order. None where rows have lanes."""
    slots = [] if fold.order.lanes.by_name else fold.order.pop_many(n)
    if not slots:
        return [], []
    ids, claims = claim_slots(fold, slots, until, group, worker)
    return list(zip(slots, ids, strict=True)), claims


def claim_slots(fold: QueueFold, slots: list[int], until: int, group: str, worker: str) -> tuple[list[int], list[ClaimedRow]]:
    """Rows that were taken from the order are processed from now on; return their ids, too. They are below the slow band, and no row has
    a lane."""
    states = fold.columns.states
    for slot in slots:
        states[slot] = PROCESSING
    ids = list(map(fold.columns.ids.__getitem__, slots))
    tokens = fold.claims.add_many(slots, fold.sequence, fold.now, until, group, worker)
    rows = claimed_rows(fold, slots, ids, until, group, worker)
    return ids, list(map(ClaimedRow, rows, tokens, repeat(until)))


def done_many(fold: QueueFold, tokens: Sequence[str]) -> list[SlotId]:
    """Remove processed rows. None of them, and nothing has changed, where a token does not count, or something waits for a row."""
    slots = [fold.claims.by_token.get(token, -1) for token in tokens]
    if -1 in slots or len(set(slots)) < len(slots) or not _plain(fold, slots):
        return []
    for token in tokens:
        del fold.claims.by_token[token]
    return list(zip(slots, _remove(fold, slots), strict=True))


def finish_slots(fold: QueueFold, slots: list[int]) -> list[int]:
    """Remove processed rows, whose tokens are gone; return their ids. Each is another one, and claimed by an earlier record than the one
    that is being made."""
    if _plain(fold, slots):
        return _remove(fold, slots)
    ids = list(map(fold.columns.ids.__getitem__, slots))
    for slot in slots:
        fold.done(slot)
    return ids


def _plain(fold: QueueFold, slots: Sequence[int]) -> bool:
    """Whether nothing is peculiar of processed rows, and nothing waits for one."""
    columns, bodies = fold.columns, fold.columns.bodies
    if fold.follow_ups or columns.extras or columns.waits.waiters:
        return False
    return max([bodies[slot][FLAGS] for slot in slots]) <= BINARY


def _remove(fold: QueueFold, slots: list[int]) -> list[int]:
    """Return the ids. The tokens of the rows are gone already."""
    columns, by_key = fold.columns, fold.by_key
    gone = list(map(columns.bodies.__getitem__, slots))
    ids = list(map(columns.ids.__getitem__, slots))
    fold.claims.remove_many(slots)
    for body in gone:
        key = body[BODY_SIZE : BODY_SIZE + (body[33] << 8 | body[34])]
        del by_key[key if len(key) <= WHOLE_KEY else by_key.name(key)]
    leave_homes(fold, slots)
    fold.live_bytes -= sum(map(len, gone))
    columns.give_back_all(slots)
    return ids


def leave_homes(fold: QueueFold, slots: Sequence[int]) -> None:
    """Rows need their homes no longer; none of these is the record that is being made."""
    ids, written = fold.columns.ids, fold.columns.homes
    homes = [written[slot] or ids[slot] // MOST_ROWS for slot in slots] if written else [ids[slot] // MOST_ROWS for slot in slots]
    if homes and homes.count(homes[0]) == len(homes):  # they were put together
        fold.homes.remove(homes[0], len(homes))
        return
    for home, rows in groupby(homes):
        fold.homes.remove(home, len(list(rows)))
