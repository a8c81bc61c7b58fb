"""Periods: an hour, a day or a month of the UTC calendar, or a duration. `period_end` says when the one that contains a moment ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, Self, get_args

from headwater.core.errors import BadInput
from headwater.core.units import Duration

Calendar = Literal["hour", "day", "month"]
CALENDAR: tuple[Calendar, ...] = get_args(Calendar)

_LENGTHS = {"hour": 3_600_000, "day": 86_400_000}  # UTC has no summer time, and the system's clock has no leap seconds
_CYCLE = 146_097 * 86_400_000  # milliseconds of 400 years, after which the calendar repeats itself
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(str):
    """A period as people write it: `hour`, `day`, `month`, or a duration such as `90m`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Errors: `BadInput` for anything but a name of the calendar or a duration with its unit."""
        text = text.strip()
        if text in CALENDAR:
            return cls(text)
        try:
            return cls(Duration.parse(text))
        except BadInput as error:
            raise BadInput(f"{text!r} is no period.", hint=f"Write {', '.join(CALENDAR)}, or a duration such as 90m.") from error

    @classmethod
    def of(cls, value: int | Calendar) -> Self:
        """The period of a name, or of milliseconds."""
        return cls(value if isinstance(value, str) else Duration(value))

    @property
    def value(self) -> int | Calendar:
        """The name, or milliseconds."""
        for name in CALENDAR:
            if self == name:
                return name
        return int(Duration.parse(self))


def period_end(period: int | Calendar, moment: int) -> int:
    """When the period that contains `moment` ends, which is when the next one begins; both in milliseconds since 1970.

    Hours, days and months are those of UTC. Durations are counted from 1970 on, so that `3_600_000` is the same as `hour`.
    """
    if period == "month":
        cycles, rest = divmod(moment, _CYCLE)  # datetime knows the years up to 9999 alone; clocks can be set to any
        begin = (_EPOCH + timedelta(milliseconds=rest)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (begin + timedelta(days=31)).replace(day=1)
        return cycles * _CYCLE + (following - _EPOCH) // timedelta(milliseconds=1)
    length = _LENGTHS[period] if isinstance(period, str) else period
    return (moment // length + 1) * length
