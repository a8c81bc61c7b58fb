"""Schedules of recurring rows: when the next run comes. Pure.

`every`: a duration from one run to the next. `cron`: a cron expression by the clocks of a time zone. Where these clocks are put forward or
back:

- An expression that has every hour (`*/10 * * * *`) means each minute that its clocks show: those that they skip do not come, those that
  they show twice come twice. So the time between two runs stays what it is.
- Another one (`30 2 * * *`) comes once a day: a time that the clocks skip comes at the moment at which they are put forward, and one that
  they show twice comes the first time.

Runs that were missed come once: whoever is late runs, and goes on with the first run behind now.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.queue.cron import CronExpression, parse_cron

SHORTEST = 1000
LONGEST = 10 * 366 * 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_LATEST = 253_370_764_800_000  # the year 9999, behind which there is no calendar
_EARLIEST = -62_000_000_000_000


NEVER = "never"
"""Ends the schedule of a row, where it stands for a duration."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """When a recurring row runs: `every` so many milliseconds, or by `cron` in a `zone`. `read_schedule` makes it.

    One with neither ends the schedule of the row that it is put to.
    """

    every: int = 0
    cron: str = ""
    zone: str = "UTC"

    def first(self, now: int) -> int:
        """The first run of a row that is put now: at once, or at the first moment of the cron expression behind now."""
        return self.next(now) if self.cron else now

    def following(self, run: int, now: int) -> int:
        """The run behind the one of the date `run`, which is done now: the first one behind both. Those between are left out."""
        if self.every:
            missed = max(0, now - run) // self.every
            return run + (missed + 1) * self.every
        return self.next(max(run, now))

    def next(self, moment: int) -> int:
        """The first run behind a moment, for a cron expression. Errors: `BadInput` beyond the calendar."""
        if not _EARLIEST <= moment <= _LATEST:
            raise BadInput(f"The date {moment} lies beyond the calendar.", hint="Give milliseconds since 1970.")
        expression, zone = parsed_cron(self.cron), zone_named(self.zone)
        behind = _EPOCH + timedelta(milliseconds=moment)
        run = _each(expression, zone, behind) if expression.every_hour else _once(expression, zone, behind)
        return (run - _EPOCH) // timedelta(milliseconds=1)

    def __str__(self) -> str:
        if self.cron:
            return f"{self.cron} ({self.zone})"
        return f"every {Duration(self.every)}" if self.every else NEVER


@lru_cache(maxsize=1024)
def schedule_of(text: str) -> Schedule:
    """The schedule of which `str` has made a text."""
    if text.startswith("every "):
        return Schedule(every=int(Duration.parse(text.removeprefix("every "))))
    if text == NEVER:
        return Schedule()
    cron, _, zone = text.removesuffix(")").rpartition(" (")
    return Schedule(cron=cron, zone=zone or "UTC")


def read_schedule(every: object = None, cron: object = None, zone: object = None) -> Schedule | None:
    """A schedule as users write it; None where nothing is given. `every="never"`: the one that ends a schedule.

    Errors: `BadInput` for both of `every` and `cron`, a zone without `cron`, and what none of them can be.
    """
    if every is None and cron is None:
        if zone is not None:
            raise BadInput("A zone alone is no schedule.", hint='Give cron, such as cron="30 4 * * *".')
        return None
    if every is not None and cron is not None:
        raise BadInput("A row has `every` or `cron`, not both.", hint="Leave one of them out.")
    if cron is not None:
        made = Schedule(cron=parse_cron(cron).text, zone="UTC" if zone is None else zone_named(zone).key)
        made.next(0)
        return made
    if zone is not None:
        raise BadInput("A duration has no zone.", hint='Leave the zone out, or give cron, such as cron="30 4 * * *".')
    if every == NEVER:
        return Schedule()
    if isinstance(every, Duration):
        length = int(every)
    elif isinstance(every, str):
        length = int(Duration.parse(every))
    else:
        raise BadInput(f"every={every!r:.60} is no duration.", hint='Write it with its unit, such as every="1h".')
    if not SHORTEST <= length <= LONGEST:
        raise BadInput(f"A row cannot run every {every}.", hint=f"Give from {Duration(SHORTEST)} to {Duration(LONGEST)}.")
    return Schedule(every=length)


def send_schedule(schedule: Schedule) -> dict[str, str]:
    """What `read_schedule` takes, by name."""
    if schedule.cron:
        return {"cron": schedule.cron, "zone": schedule.zone}
    return {"every": str(Duration(schedule.every)) if schedule.every else NEVER}


@lru_cache(maxsize=1024)
def parsed_cron(text: str) -> CronExpression:
    """`parse_cron`, once for each text."""
    return parse_cron(text)


def zone_named(name: object) -> ZoneInfo:
    """A zone of the IANA database. Errors: `BadInput`."""
    if isinstance(name, str) and name:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise BadInput(f"{name!r:.60} is no time zone.", hint="Give one of the IANA database, such as Europe/Berlin or UTC.")


# -- an expression that has every hour ----------------------------------------------------------------------------


def _each(expression: CronExpression, zone: ZoneInfo, behind: datetime) -> datetime:
    """The first minute behind a moment that the clocks show from its beginning, and that the expression has."""
    moment = _whole_minute(zone, behind) + _MINUTE
    while True:
        wall = moment.astimezone(zone)
        if wall.second:  # the clocks were put forward or back within the minute: the next one that they show whole
            moment += _MINUTE - timedelta(seconds=wall.second)
        elif not expression.has(wall.date()):
            moment = _shortly_before(expression, zone, wall.date(), moment)
        elif wall.minute in expression.minutes:
            return moment
        else:
            moment += _MINUTE


def _whole_minute(zone: ZoneInfo, moment: datetime) -> datetime:
    """When the clocks last showed a whole minute. Their distance to UTC may have seconds, as it had long ago."""
    wall = moment.astimezone(zone)
    return moment - timedelta(seconds=wall.second, microseconds=wall.microsecond)


def _shortly_before(expression: CronExpression, zone: ZoneInfo, day: date, moment: datetime) -> datetime:
    """A later minute that does not lie behind the beginning of the expression's next day, wherever clocks are put forward or back."""
    following = _day_of(expression, day + _DAY)
    near = _whole_minute(zone, _moment(datetime(following.year, following.month, following.day), zone) - 4 * _HOUR)
    return max(near, moment + _MINUTE)


# -- an expression that comes once a day --------------------------------------------------------------------------


def _once(expression: CronExpression, zone: ZoneInfo, behind: datetime) -> datetime:
    """The first moment behind another of a time that the expression has, each time coming once.

    Moments do not go back where times go on, so that the first time whose moment lies behind is the one.
    """
    wall = behind.astimezone(zone).replace(tzinfo=None)
    for time in _times(expression, wall.replace(second=0, microsecond=0)):
        moment = _moment(time, zone)
        if moment > behind:
            return moment
    raise _no_more(expression)


def _times(expression: CronExpression, first: datetime) -> Iterator[datetime]:
    """The times of an expression from one on, by a calendar in which every day has 24 hours."""
    minutes, hours = sorted(expression.minutes), sorted(expression.hours)
    for day in expression.days_from(first.date()):
        for hour in hours:
            for minute in minutes:
                time = datetime(day.year, day.month, day.day, hour, minute)
                if time >= first:
                    yield time


def _moment(time: datetime, zone: ZoneInfo) -> datetime:
    """When the clocks show a time, the first time; where they skip it, when they are put forward."""
    early = time.replace(tzinfo=zone).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == time:
        return early
    low, high = time.replace(tzinfo=zone, fold=1).astimezone(UTC), early  # the clocks are put forward between the two
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def _day_of(expression: CronExpression, day: date) -> date:
    next_day = next(expression.days_from(day), None)
    if next_day is None:
        raise _no_more(expression)
    return next_day


def _no_more(expression: CronExpression) -> BadInput:
    return BadInput(f"The calendar has no more days for {expression.text!r}.", hint="Give an earlier date.")
