"""Compares the state that a region would recover, from its newest snapshot and what lies behind it, with the state that the log tells."""

from __future__ import annotations

from headwater.core.errors import Damaged, Differs, MetaLost
from headwater.wal.answers import RegionVerified
from headwater.wal.map_check import misplaced
from headwater.wal.recovery import Beat, Recovered, full_scan, has_holes, recover
from headwater.wal.region_meta import RegionMeta
from headwater.wal.table_meta import TableMeta
from headwater.wal.view import RegionView


def verify(view: RegionView, beat: Beat = lambda: None) -> RegionVerified:
    """Compare with a scan of the whole log; where that is no longer whole, with the older snapshot, and each live payload with its record.

    Blocking. `beat`: is called between two batches, and may raise. Errors: `Differs` with the first difference; `Damaged` where there is
    nothing to compare with.
    """
    view.topic()
    return view.steady(lambda: _verified(view, beat))


def _verified(view: RegionView, beat: Beat) -> RegionVerified:
    log, topics = view.log, view.topics
    stored = recover(log, topics, beat=beat)
    end, whole = stored.meta.watermark, log.bounds(topics.data, 0).start == 0
    try:
        rebuilt = full_scan(log, topics, end, beat) if whole else _from_older(view, end, beat)
    except Damaged:
        if not whole or not stored.snapshots or not has_holes(log, topics, end):
            raise
        whole, rebuilt = False, _from_older(view, end, beat)  # what a repair has cut was accepted: only snapshots tell the state since then
    problem = difference(stored.meta, rebuilt.meta)
    if not problem and not whole:  # both may go back to one mistake of before the clean: the log itself tells of what is live
        problem = misplaced(log, topics, stored.meta, beat)
    if problem:
        raise Differs(
            f"The stored state of region {topics} is not the one that its log tells: {problem}.",
            hint=f"Restore {topics.data} and {topics.meta} from a backup, or look at what both say: `headwater wal tables {topics}`.",
        )
    return RegionVerified(
        tables=len(rebuilt.meta.tables),
        live=rebuilt.meta.live,
        watermark=end,
        compared="full scan" if whole else "older snapshot",
        records=rebuilt.records,
        problems=stored.problems,
    )


def _from_older(view: RegionView, end: int, beat: Beat) -> Recovered:
    try:
        return recover(view.log, view.topics, skip=1, end=end, beat=beat)
    except MetaLost as error:
        raise Damaged(
            f"Region {view.topics} has nothing to compare its state with: its log no longer begins at 0, and it has one whole snapshot.",
            hint=f"`headwater wal clean {view.topics}` stores another one.",
        ) from error


def difference(stored: RegionMeta, rebuilt: RegionMeta) -> str:
    """The first difference between what is stored and what the log tells, for people; "" where there is none."""
    for number in sorted({*stored.tables, *rebuilt.tables}):
        mine, theirs = stored.tables.get(number), rebuilt.tables.get(number)
        if mine is None or theirs is None:
            return f"only {'the log' if mine is None else 'the stored state'} has table {number}"
        if mine != theirs:
            return f"table {number} {_of_table(mine, theirs)}"
    for name in ("watermark", "epoch"):
        ours, other = getattr(stored, name), getattr(rebuilt, name)
        if ours != other:
            return f"its {name} is {ours} as stored, and {other} by the log"
    return ""


def _of_table(stored: TableMeta, rebuilt: TableMeta) -> str:
    for name in ("next", "marked", "watermark"):
        ours, other = getattr(stored, name), getattr(rebuilt, name)
        if ours != other:
            return f"has {name} {ours} as stored, and {other} by the log"
    pairs = zip(stored.column().tolist(), rebuilt.column().tolist(), strict=True)
    place, (ours, other) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"has its payload {stored.marked + place} at offset {ours} as stored, and at {other} by the log"
