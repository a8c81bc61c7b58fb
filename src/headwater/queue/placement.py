"""Where a new queue lies and what it is set to, and what a change makes of one that is there. Pure.

Period, disposal, sizes and copies belong to the region. They are fixed when it is made: queues that share a region have the same, and a
queue that gives others is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headwater.core.errors import AlreadyExists
from headwater.core.period import Period
from headwater.queue.catalogue_fold import CatalogueFold, QueueEntry
from headwater.queue.declaration import Declaration
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.settings_form import NAMES, read_settings, show_settings

OF_THE_REGION = ("period", "disposal", "segment", "max_record", "replication")
_DURATIONS = {"hour": Period("1h"), "day": Period("1d")}  # brokers close segments at an age


class QueueWish(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants of a queue. `settings`: those that are written, by name. `declaration`: None leaves it as it is."""

    name: str
    settings: Mapping[str, Any]
    declaration: Declaration | None = None

    @property
    def written(self) -> dict[str, Any]:
        """The settings of the call and those of its declaration, over which the call's go."""
        return {**(self.declaration.settings if self.declaration is not None else {}), **self.settings}


def new_entry(
    wish: QueueWish, fold: CatalogueFold, usual: EffectiveSettings, *, taken: Callable[[int], bool], engine: str, now: int
) -> QueueEntry:
    """The entry of a new queue. `usual`: as configured for this name. `taken`: whether a region is there that no queue names.

    Errors: `BadInput` for a setting that cannot be; `AlreadyExists` for one that differs from the region's.
    """
    settings, table = read_settings(wish.written, usual), fold.next_table
    written_names = {name for name in NAMES if name in wish.written or getattr(usual, name) != getattr(EffectiveSettings(), name)}
    if settings.region is None:
        while fold.users(table) or taken(table):  # a region has the number of its first queue's table, unless somebody chose that number
            table += 1
        region = table
    else:
        region = settings.region
    if engine == "kafka" and "period" not in written_names:
        settings = msgspec.structs.replace(settings, period=_DURATIONS.get(settings.period, settings.period))
    if users := fold.users(region):
        settings = _shared(settings, written_names, fold.entries[users[0]], users)
    declaration = "" if wish.declaration is None else wish.declaration.text
    return QueueEntry(
        name=wish.name,
        region=region,
        table=table,
        settings=settings,
        declaration=declaration,
        declared=1 if declaration else 0,
        created=now,
        changed=now,
    )


def changed_entry(wish: QueueWish, entry: QueueEntry, *, now: int) -> QueueEntry:
    """The entry after a change; the same one where nothing changes. Errors: `BadInput`; `AlreadyExists` for what is the region's."""
    written = wish.written
    if written.get("region") in (entry.region, str(entry.region)):
        del written["region"]
    settings = read_settings(written, entry.settings)
    for name in (*OF_THE_REGION, "region"):
        if getattr(settings, name) != getattr(entry.settings, name):
            has, wants = (show_settings(effective).get(name, "none") for effective in (entry.settings, settings))
            has = entry.region if name == "region" else has
            raise AlreadyExists(
                f"Queue {entry.name} has {name} {has}, not {wants}: that is fixed once its region, {NAMESPACE}/{entry.region}, is made.",
                hint=f"Leave {name} out, or create another queue with it.",
            )
    declaration = entry.declaration if wish.declaration is None else wish.declaration.text
    if (settings, declaration) == (entry.settings, entry.declaration):
        return entry
    return msgspec.structs.replace(
        entry,
        settings=settings,
        declaration=declaration,
        declared=entry.declared + (declaration != entry.declaration),
        version=entry.version + 1,
        changed=now,
    )


def _shared(settings: EffectiveSettings, written_names: set[str], other: QueueEntry, users: list[str]) -> EffectiveSettings:
    """The settings of one more queue of a region."""
    theirs = {name: getattr(other.settings, name) for name in OF_THE_REGION}
    for name in OF_THE_REGION:
        if name in written_names and getattr(settings, name) != theirs[name]:
            has, wants = (show_settings(effective).get(name, "none") for effective in (other.settings, settings))
            raise AlreadyExists(
                f"Region {NAMESPACE}/{other.region} has {name} {has}, for {', '.join(users[:5])}; a queue in it cannot have {wants}.",
                hint=f"Leave {name} out, or give the queue a region of its own: leave region out.",
            )
    return msgspec.structs.replace(settings, **theirs)
