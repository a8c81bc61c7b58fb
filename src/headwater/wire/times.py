"""Times as text: ISO 8601 in UTC with milliseconds, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headwater.core.errors import BadInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = (1 << 63) - 1


def show_time(ms: int | None) -> str | int | None:
    """ISO 8601 in UTC with milliseconds; the number itself beyond the calendar's range."""
    if ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms


def read_time(value: int | str) -> int:
    """Milliseconds since 1970. Errors: `BadInput` for what is neither a number of them nor ISO 8601 with its zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise BadInput(f"{value!r} is no time.", hint="Write it such as 2026-01-31T12:00:00.000Z.")
        value = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not -_LARGEST <= value <= _LARGEST:
        raise BadInput(f"The time {value} is out of range.", hint="Give milliseconds since 1970, or ISO 8601.")
    return value
