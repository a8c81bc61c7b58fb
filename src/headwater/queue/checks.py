"""Checks of what callers give. A row that passes can be put whatever the queue holds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.core.errors import BadInput, TooLarge
from headwater.queue.effective_settings import MAX_KEPT, EffectiveSettings
from headwater.queue.records import MOST_ROWS, OVERHEAD, PUT_SIZE
from headwater.queue.row import BINARY, JSON, NewRow

MAX_KEY = 1024
"""Bytes of a key."""
MAX_NAME = 255
"""Bytes of a lane, of a consumer group, of a worker's name, and of an idempotency key."""
MAX_DATE = (1 << 47) - 1
"""In milliseconds: the year 6429."""
MOST_CLAIMS = 10_000
"""Rows that one call claims."""
MOST_VERSION = 65_535
"""Of a declaration."""
FORMS = (JSON, BINARY)
MAX_ERROR = 4096
"""Bytes of the text of a failure; more is cut off."""
MOST_AFTER = 65_536
"""Rows that a row may be put after."""
ROOM = 16 << 10
"""Bytes that the largest put leaves free in a record: its row is written again, with its claim, its lane and the texts of failures."""
SMALL = 64 << 10
"""Bytes of data that fit into a record for sure."""


class CheckedRow(msgspec.Struct, gc=False):
    """A row to put, with every date known."""

    key: bytes
    data: bytes
    form: int
    priority: int
    insertion: int
    process: int
    expiration: int
    declaration: int
    lane: bytes
    raised: bool
    schedule: str = ""
    """Empty: the one that the row of the key has, if any. `never`: none from now on."""
    dated: bool = True
    """The process date is not that of the schedule's first run."""
    own: bool = False
    """The insertion date is the queue's, not the caller's: the put is never stale, also where somebody has set the queue's clock back."""
    unique_for: int = 0
    """Milliseconds for which the row's key is remembered when it is done; those of the queue's settings count beside it."""
    within: int = 0
    """The row is ignored where its key was done within so many milliseconds; 0: it never is."""
    after: tuple[int, ...] = ()
    after_dead: str = ""


def checked_row(new: NewRow, settings: EffectiveSettings, now: int) -> CheckedRow:
    """Errors: `BadInput`, `TooLarge`."""
    key, data, priority, insertion, process = new.key, new.data, new.priority, new.insertion_date, new.process_date
    if type(key) is not bytes or not key:
        raise BadInput("A row needs a key.", hint="Give one, such as key=b'page:/about'.")
    if len(key) > MAX_KEY:
        raise TooLarge(f"The key has {len(key)} bytes; a queue takes {MAX_KEY}.", hint="Use a digest of it as the key.")
    if type(data) is not bytes:
        raise BadInput(f"The data of {_shown(key)} are a {type(data).__name__}.", hint="Give bytes.")
    if new.form not in FORMS:
        raise BadInput(f"The form {new.form!r} of {_shown(key)} is none.", hint="Forms are 0, JSON, and 1, bytes.")
    if priority is None:
        priority = settings.priority
    elif type(priority) is not int or not 0 <= priority <= 255:
        raise BadInput(f"The priority {priority!r} of {_shown(key)} is none.", hint="Priorities are 0 to 255, the smallest first.")
    if type(new.declaration) is not int or not 0 <= new.declaration <= MOST_VERSION:
        raise BadInput(f"The declaration {new.declaration!r:.60} of {_shown(key)} is none.", hint=f"Versions are 0 to {MOST_VERSION}.")
    raised, schedule = False, new.schedule
    if insertion is None:
        insertion = now
    else:
        _check_date(key, "insertion_date", insertion)
        if insertion > now + settings.clock_ahead:
            raise BadInput(
                f"The insertion date of {_shown(key)} lies {insertion - now} ms ahead of the server's clock; {settings.clock_ahead} are "
                "allowed.",
                hint="Set the client's clock, or leave the date out.",
            )
    if new.delay is not None:
        if process is not None:
            raise BadInput(f"{_shown(key)} has a process date and a delay.", hint="Give one of them.")
        if type(new.delay) is not int or new.delay < 0:
            raise BadInput(f"The delay {new.delay!r} of {_shown(key)} is none.", hint="Give 0 or more.")
        process = now + new.delay
        _check_date(key, "process date", process)
    elif process is None:
        process = now if schedule is None else schedule.first(now)
    else:
        _check_date(key, "process_date", process)
        if process < insertion:
            process, raised = insertion, True
    if new.expiration_date != 0:
        _check_date(key, "expiration_date", new.expiration_date)
    if new.lane and (type(new.lane) is not bytes or len(new.lane) > MAX_NAME):
        raise BadInput(f"The lane of {_shown(key)} is none.", hint=f"Give up to {MAX_NAME} bytes.")
    checked = CheckedRow(key, data, new.form, priority, insertion, process, new.expiration_date, new.declaration, new.lane, raised)
    checked.own = new.insertion_date is None
    if new.unique_for is None:
        checked.within = int(settings.unique_for)
    else:
        if type(new.unique_for) is not int or not 0 <= new.unique_for <= MAX_KEPT:
            raise BadInput(f"The unique_for {new.unique_for!r} of {_shown(key)} is none.", hint="Give 0ms to 366d, such as 10m.")
        checked.unique_for = checked.within = new.unique_for
    if schedule is not None:
        if len(schedule.cron) > MAX_NAME:
            raise BadInput(f"The cron expression of {_shown(key)} is too long.", hint=f"Give up to {MAX_NAME} characters.")
        has_date = new.delay is not None or new.process_date is not None
        checked.schedule, checked.dated = str(schedule), has_date or not (schedule.every or schedule.cron)
    if new.after or new.after_dead:
        checked.after, checked.after_dead = _checked_after(key, new.after), new.after_dead
        if new.after_dead not in ("", "hold", "cancel"):
            raise BadInput(f"after_dead={new.after_dead!r:.60} of {_shown(key)} is none.", hint="Give hold or cancel.")
    return checked


def check_size(checked: Sequence[CheckedRow], limit: int, *, named: bool, more: int = 0) -> None:
    """Whether the rows of a put fit into a record of the limit. `named`: its answer is kept with it. `more`: bytes that they have beside.

    Errors: `TooLarge`.
    """
    room = limit - ROOM
    if len(checked) > MOST_ROWS:
        raise TooLarge(f"A put of {len(checked)} rows is too large.", hint=f"Put up to {MOST_ROWS} rows at once.")
    size = sum(len(new.key) + len(new.data) + len(new.lane) + len(new.schedule) for new in checked) + OVERHEAD * (len(checked) + 1) + more
    if named:
        size += MAX_NAME + PUT_SIZE * len(checked)
    if size > room:
        raise TooLarge(f"The rows have {size} bytes; the queue's log takes {room} at once.", hint="Put fewer or smaller rows at once.")


def _checked_after(key: bytes, after: tuple[int, ...]) -> tuple[int, ...]:
    for id in after:
        if type(id) is not int or not 0 <= id < 1 << 63:
            raise BadInput(f"{id!r:.60}, after which {_shown(key)} comes, is no id of a row.", hint="Give ids that puts have answered.")
    if len(after) > MOST_AFTER:
        raise TooLarge(
            f"{_shown(key)} waits for {len(after)} rows; {MOST_AFTER} are allowed.", hint="Let another row wait for some of them."
        )
    return after


def checked_name(name: str, what: str) -> bytes:
    """A name as bytes. Errors: `BadInput`."""
    try:
        encoded = name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise BadInput(f"{what} {name!r} is no text.", hint="Give a short text.") from None
    if len(encoded) > MAX_NAME:
        raise BadInput(f"{what} has {len(encoded)} bytes; {MAX_NAME} are allowed.", hint="Give a shorter one.")
    return encoded


def checked_duration(value: int | None, usual: int, what: str, least: int = 0) -> int:
    """A duration in milliseconds. Errors: `BadInput`."""
    if value is None:
        return usual
    if type(value) is not int or not least <= value <= MAX_DATE // 2:
        raise BadInput(f"{what} of {value!r} ms is none.", hint=f"Give a whole number from {least} on.")
    return value


def cut_error(error: str) -> str:
    """An error's text, cut to what a row keeps of it."""
    return error.encode(errors="replace")[:MAX_ERROR].decode(errors="ignore")


def _check_date(key: bytes, name: str, date: int) -> None:
    if type(date) is not int or not 0 < date <= MAX_DATE:
        raise BadInput(f"The {name} {date!r} of {_shown(key)} is none.", hint="Give a date from 1970 to 6429, in milliseconds.")


def _shown(key: bytes) -> str:
    return repr(key[:80].decode(errors="replace"))
