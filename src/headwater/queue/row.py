"""Rows: what users put into a queue and see of it. Dates are milliseconds since 1970, UTC; 0 stands for no date."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.queue.schedule import Schedule

Status = Literal["W", "P"]
WAITING: Status = "W"
PROCESSING: Status = "P"

NOW = 0
"""The first row of the queue."""
IMPORTANT = 10
NEW_PAGE = 20
RESET = 50
UPDATES = 180
SLOW = 200
"""Rows of this priority and beyond wait while the consumer group has another row that is due or being processed."""
REVIEW = 230
TIME_ALLOWS = 255
"""The last row of the queue."""

JSON = 0
BINARY = 1
"""Forms of a row's data: the text of a JSON value, or any bytes."""


class NewRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row as it is put. What is left out is taken from the queue's settings and from the server's clock."""

    key: bytes
    data: bytes = b"null"
    form: int = JSON
    priority: int | None = None
    """0 to 255, the smallest first."""
    process_date: int | None = None
    """Not before this date; one that lies before the insertion date is raised to it."""
    delay: int | None = None
    """Milliseconds from now to the process date; instead of one."""
    insertion_date: int | None = None
    """The date of the client, by which older writes to a key are told from newer ones."""
    expiration_date: int = 0
    lane: bytes = b""
    declaration: int = 0
    """The version of the declaration that the data fit."""
    schedule: Schedule | None = None
    """The row comes again and again. None: a row of the key keeps the schedule that it has."""
    unique_for: int | None = None
    """Milliseconds: ignored where the key was done within them. None: as the queue's settings say; 0: never ignored."""
    after: tuple[int, ...] = ()
    """The ids of rows that it waits for, until they are gone."""
    after_dead: str = ""
    """What a dead, cancelled or expired one of them does: `hold` (so it is where nothing is said) or `cancel`."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row of a queue as it is now."""

    id: int
    key: bytes
    data: bytes
    form: int
    priority: int
    insertion_date: int
    process_date: int
    expiration_date: int
    status: Status
    start_processing_date: int = 0
    timeout_counter: int = 0
    attempts: int = 0
    """How often it was claimed, since it was inserted."""
    failures: int = 0
    """How often a worker said that it failed, since its data changed."""
    update_date: int = 0
    """The insertion date of the last put that changed it."""
    lane: bytes = b""
    declaration: int = 0
    error: str = ""
    """Of the last failure."""
    lease_until: int = 0
    worker: str = ""
    group: str = ""
    follow_up: bool = False
    """It waits until the row of its key that is being processed is done."""
    schedule: str = ""
    """By which it comes again, such as `every 1h` and `0 6 * * 1-5 (Europe/Berlin)`; empty: once it is done, it is gone."""
    after: tuple[int, ...] = ()
    """The ids of the rows that it still waits for."""
    after_dead: str = ""
    """What a dead, cancelled or expired one of them does: `hold` or `cancel`; empty where it waits for none."""
