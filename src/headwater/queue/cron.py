"""Cron expressions of five fields: minute, hour, day of the month, month, day of the week. Pure: the calendar alone, without a zone.

A field is `*`, a number, a range `a-b`, each with an optional step `/n`, or a list of these. Months and days of the week have names too
(jan, mon); Sunday is 0 and 7. Where both the day of the month and the day of the week are restricted (neither begins with `*`), a day
counts that fits either of them, as in cron.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from headwater.core.errors import BadInput

_MONTHS = {
    name: number for number, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_ITEM = re.compile(r"(?:(?P<any>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?", re.ASCII)
_HINT = "Write minute, hour, day of the month, month and day of the week, such as `30 4 * * mon-fri`."
_YEARS = 60  # within which every date that can come does come: a 29 February that is a Monday takes up to 40


class CronExpression(msgspec.Struct, frozen=True):
    """The minutes, hours, days, months and days of the week (Sunday is 0) of an expression."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """A day counts that fits the day of the month or the day of the week."""

    @property
    def every_hour(self) -> bool:
        return len(self.hours) == 24

    def has(self, day: date) -> bool:
        """Whether the expression has this day."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either else by_month and by_week

    def days_from(self, first: date) -> Iterator[date]:
        """The days of the expression from `first` on, for as long as the calendar goes, or 60 years."""
        day, end = first, min(date.max.year, first.year + _YEARS)
        while day.year <= end:
            if day.month not in self.months:
                if (day.year, day.month) >= (end, 12):
                    return
                day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
                continue
            if self.has(day):
                yield day
            if day == date.max:
                return
            day += timedelta(days=1)


def parse_cron(text: object) -> CronExpression:
    """Errors: `BadInput`, which names the field; also for days that never come, such as 30 February."""
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.60} is no cron expression.", hint=_HINT)
    words = text.split()
    if len(words) != len(_FIELDS):
        raise BadInput(f"The cron expression {text!r:.80} has {len(words)} fields, not 5.", hint=_HINT)
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    made = CronExpression(
        text=" ".join(words),
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either=not words[2].startswith("*") and not words[4].startswith("*"),
    )
    if next(made.days_from(date(2000, 1, 1)), None) is None:
        raise BadInput(f"The cron expression {text!r:.80} names days that never come.", hint="Give a day that its months have.")
    return made


def _field(word: str, name: str, least: int, most: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    for item in word.split(","):
        matched = _ITEM.fullmatch(item)
        if matched is None:
            raise _bad(item, name, least, most)
        first, last, step = matched["first"], matched["last"], matched["step"]
        begin = least if first is None else _number(first, name, least, most, names)
        open_end = first is None or step is not None
        end = _number(last, name, least, most, names) if last is not None else most if open_end else begin
        if end < begin:
            raise BadInput(f"The {name} {item!r:.40} of a cron expression goes backwards.", hint="Give the lower one first, or a list.")
        stride = 1 if step is None else _number(step, name, 1, most, {})
        values.update(range(begin, end + 1, stride))
    return frozenset(values)


def _number(text: str, name: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text.lower(), -1) if not text.isdigit() else int(text) if len(text) < 4 else -1
    if not least <= number <= most:
        raise _bad(text, name, least, most)
    return number


def _bad(item: str, name: str, least: int, most: int) -> BadInput:
    return BadInput(f"{item!r:.40} is no {name} of a cron expression.", hint=f"It goes from {least} to {most}. {_HINT}")
