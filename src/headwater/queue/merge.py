"""The merge rule: what becomes of a waiting row when its key is put again. Field by field, so that many changes make one run."""

from __future__ import annotations

from typing import NamedTuple


class Mergeable(NamedTuple):
    """What takes part in a merge, of a waiting row or of a row that is put."""

    priority: int
    insertion: int
    process: int
    expiration: int
    update: int
    data: bytes
    form: int
    declaration: int
    lane: bytes
    schedule: str = ""
    run: int = 0
    unique_for: int = 0
    after: frozenset[int] = frozenset()
    after_dead: str = ""


def merged(old: Mergeable, new: Mergeable, max_delay: int = 0) -> Mergeable:
    """The waiting row `old`, after `new` was put.

    It keeps its first insertion date. The smaller priority, the later process date and the later expiration win; no expiration is the
    latest. The newer data replace the older, and a schedule the one before; the longer `unique_for` wins. It waits for the rows that either
    waits for. `max_delay`: the most that puts delay a row beyond its insertion date; 0: any delay.
    """
    process = new.process
    if max_delay:
        process = min(process, old.insertion + max_delay)
    return Mergeable(
        priority=min(old.priority, new.priority),
        insertion=old.insertion,
        process=max(old.process, process),
        expiration=max(old.expiration, new.expiration) if old.expiration and new.expiration else 0,
        update=max(old.update, new.update),
        data=new.data,
        form=new.form,
        declaration=new.declaration,
        lane=new.lane or old.lane,
        schedule=new.schedule or old.schedule,
        run=new.run if new.schedule else old.run,
        unique_for=max(old.unique_for, new.unique_for),
        after=old.after | new.after,
        after_dead=new.after_dead or old.after_dead,
    )
