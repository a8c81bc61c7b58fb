"""Rows that are put, as the door takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from headwater.core.errors import BadInput
from headwater.queue.handling import duration_of
from headwater.queue.json_form import GivenDate, data_bytes, key_bytes, read_date
from headwater.queue.row import NewRow
from headwater.queue.schedule import read_schedule


class HasId(Protocol):
    """What a put has returned, or a row."""

    @property
    def id(self) -> int: ...


GivenAfter = int | HasId | Iterable[int | HasId]
"""Rows that another one waits for, as they are given."""


def new_row(
    key: str | bytes,
    data: Any = None,
    *,
    priority: int | None = None,
    delay: str | None = None,
    process_date: GivenDate | None = None,
    expiration_date: GivenDate | None = None,
    insertion_date: GivenDate | None = None,
    lane: str | None = None,
    every: str | None = None,
    cron: str | None = None,
    zone: str | None = None,
    unique_for: str | None = None,
    after: GivenAfter | None = None,
    after_dead: str | None = None,
) -> NewRow:
    """The row that was given. Errors: `BadInput`."""
    content, form = data_bytes(data)
    if priority is not None and type(priority) is not int:
        raise BadInput(f"priority={priority!r:.60} is no number.", hint="Give one from 0 (first) to 255 (last).")
    if lane is not None and not isinstance(lane, str):
        raise BadInput(f"lane={lane!r:.60} is no text.", hint='Give such as lane="tenant-7".')
    return NewRow(
        key=key_bytes(key),
        data=content,
        form=form,
        priority=priority,
        process_date=None if process_date is None else read_date(process_date, "process_date"),
        delay=None if delay is None else duration_of(delay, "delay"),
        insertion_date=None if insertion_date is None else read_date(insertion_date, "insertion_date"),
        expiration_date=0 if expiration_date is None else read_date(expiration_date, "expiration_date"),
        lane=b"" if lane is None else lane.encode(),
        schedule=read_schedule(every, cron, zone),
        unique_for=None if unique_for is None else duration_of(unique_for, "unique_for"),
        after=() if after is None else after_ids(after),
        after_dead=after_dead or "",
    )


def after_ids(after: object) -> tuple[int, ...]:
    """The ids of rows that a row is put after: one or several, each an id or the answer of a put. Errors: `BadInput`."""
    rows: Iterable[Any] = after if isinstance(after, Iterable) and not isinstance(after, str | bytes) else (after,)
    ids = tuple(getattr(row, "id", row) for row in rows)
    for id in ids:
        if type(id) is not int:
            raise BadInput(f"after={id!r:.60} is no id of a row.", hint="Give ids that puts have answered, or these answers.")
    return ids


def rows_from(items: object) -> list[NewRow]:
    """The rows that were given, one at least. Errors: `BadInput`."""
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise BadInput(f"{items!r:.60} are no rows.", hint='Give such as [("page:/about", {"why": "edited"})].')
    rows = [row_from(row) for row in items]
    if not rows:
        raise BadInput("A put without rows puts nothing.", hint="Give at least one row.")
    return rows


def row_from(item: object) -> NewRow:
    """The row that was given. Errors: `BadInput`."""
    if isinstance(item, NewRow):
        return item
    try:
        if isinstance(item, Mapping):
            return new_row(**item)
        if isinstance(item, tuple):
            return new_row(*item)
    except TypeError as error:
        raise BadInput(f"{item!r:.60} is no row: {error}.", hint='Give (key, data), or such as {"key": "k", "data": 1}.') from None
    raise BadInput(f"{item!r:.60} is no row.", hint='Give (key, data), or such as {"key": "k", "data": 1}.')
