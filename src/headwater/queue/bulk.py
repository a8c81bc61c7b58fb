"""Claims many rows, and removes many that are done, in few steps for each. What is out of the ordinary is left to the general way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from headwater.queue.body import BINARY, BODY_SIZE, FLAGS
from headwater.queue.columns import PROCESSING
from headwater.queue.fold import QueueFold
from headwater.queue.records import MOST_ROWS, SlotId
from headwater.queue.row_view import claimed_row
from headwater.queue.values import ClaimedRow


def claim_many(fold: QueueFold, n: int, until: int, group: str, worker: str) -> tuple[list[SlotId], list[ClaimedRow]]:
    """Claim up to `n` rows below the slow band, in their order. None where rows have lanes."""
    slots = [] if fold.order.lanes.by_name else fold.order.pop_many(n)
    if not slots:
        return [], []
    columns, start = fold.columns, fold.now
    states, ids = columns.states, columns.ids
    for slot in slots:
        states[slot] = PROCESSING
    tokens = fold.claims.add_many(slots, fold.sequence, start, until, group, worker)
    rows = [claimed_row(fold, slot, start, until, group, worker) for slot in slots]
    claimed = [ClaimedRow(row, token, until) for row, token in zip(rows, tokens, strict=True)]
    return [(slot, ids[slot]) for slot in slots], claimed


def done_many(fold: QueueFold, tokens: Sequence[str]) -> list[SlotId]:
    """Remove processed rows. None of them, and nothing has changed, where a token does not count, or something waits for a row."""
    columns, bodies = fold.columns, fold.columns.bodies
    slots = [fold.claims.by_token.get(token, -1) for token in tokens]
    if fold.follow_ups or columns.extras or columns.waits.waiters or -1 in slots or len(set(slots)) < len(slots):
        return []
    gone = [bodies[slot] for slot in slots]
    if max([body[FLAGS] for body in gone]) > BINARY:
        return []
    ids, by_key = columns.ids, fold.by_key
    rows = [(slot, ids[slot]) for slot in slots]
    fold.claims.remove_many(tokens, slots)
    for body in gone:
        del by_key[body[BODY_SIZE : BODY_SIZE + (body[33] << 8 | body[34])]]
    leave_homes(fold, slots)
    fold.live_bytes -= sum(map(len, gone))
    columns.give_back_all(slots)
    return rows


def leave_homes(fold: QueueFold, slots: Sequence[int]) -> None:
    """Rows need their homes no longer; none of these is the record that is being made."""
    ids, written = fold.columns.ids, fold.columns.homes
    homes = [written.get(slot) or ids[slot] // MOST_ROWS for slot in slots] if written else [ids[slot] // MOST_ROWS for slot in slots]
    for home, those in groupby(homes):
        fold.homes.remove(home, sum(1 for _ in those))
