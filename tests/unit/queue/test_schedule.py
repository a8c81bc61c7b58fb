"""Schedules: the next run against a walk over every minute, where clocks are put forward and back, too."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.queue.cron import CronExpression, parse_cron
from headwater.queue.schedule import Schedule, read_schedule, schedule_of, send_schedule, zone_named

EPOCH, MINUTE = datetime(1970, 1, 1, tzinfo=UTC), timedelta(minutes=1)
# Days on which clocks are put forward or back: by an hour, by half an hour, at midnight, by a whole day, and from seconds to whole minutes.
DAYS = [
    ("Europe/Berlin", "2024-03-31"),
    ("Europe/Berlin", "2024-10-27"),
    ("America/New_York", "2024-03-10"),
    ("America/New_York", "2024-11-03"),
    ("Australia/Lord_Howe", "2024-04-06"),
    ("Australia/Lord_Howe", "2024-10-05"),
    ("America/Havana", "2024-03-10"),
    ("America/Havana", "2024-11-03"),
    ("Pacific/Apia", "2011-12-30"),
    ("Africa/Monrovia", "1972-01-07"),
    ("Asia/Kathmandu", "2024-05-05"),
    ("UTC", "2024-02-29"),
]
FIELDS = st.sampled_from(["*", "0", "30", "*/10", "5,55", "59"])
HOURS = st.sampled_from(["*", "*", "0", "1", "2", "3", "0-3", "23", "*/2", "1,2,3"])
WEEKDAYS = st.sampled_from(["*", "*", "*", "sun", "mon-fri", "6,0"])


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


def shown(moment: int, zone: str) -> str:
    return (EPOCH + timedelta(milliseconds=moment)).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes")


def has(expression: CronExpression, wall: datetime) -> bool:
    return expression.has(wall.date()) and wall.hour in expression.hours and wall.minute in expression.minutes


@cache
def ticks(zone: ZoneInfo, begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Moments, and what the clocks show: every minute; every half minute where clocks are put forward at half a minute."""
    step = timedelta(seconds=30) if zone.key == "Africa/Monrovia" else MINUTE
    moments = [begin + number * step for number in range((end - begin) // step)]
    walls = [moment.astimezone(zone) for moment in moments]
    for before, wall in pairwise(walls):  # the walk knows the second at which the clocks are put forward or back
        if before.utcoffset() != wall.utcoffset():
            assert (wall.astimezone(UTC) - timedelta(seconds=1)).astimezone(zone).utcoffset() == before.utcoffset()
    return [(moment, wall.replace(tzinfo=None, fold=0)) for moment, wall in zip(moments, walls, strict=True)]


def runs(expression: CronExpression, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """Every run between two moments, by walking over all minutes."""
    found: list[datetime] = []
    shown_before: set[datetime] = set()
    last: datetime | None = None
    for moment, wall in ticks(zone, begin, end):
        here = [] if wall.second else [wall]
        if expression.every_hour:
            if here and has(expression, wall):
                found.append(moment)
            continue
        if last is not None and wall > last + MINUTE:  # those that were skipped come now
            first = last.replace(second=0) + MINUTE
            here = [*(first + number * MINUTE for number in range(math.ceil((wall - first) / MINUTE))), *here]
        if any(has(expression, one) and one not in shown_before for one in here):
            found.append(moment)
        shown_before.update(here)
        last = wall
    return found


@example(("Africa/Monrovia", "1972-01-07"), "*/10", "*", "*", 24 * 60 - 20 * 60 + 35)
@example(("Africa/Monrovia", "1972-01-07"), "30", "0-3", "*", 24 * 60 - 20 * 60 + 35)
@given(st.sampled_from(DAYS), FIELDS, HOURS, WEEKDAYS, st.integers(0, 60 * 36))
def test_the_next_run_is_that_of_a_walk_over_all_minutes(day: tuple[str, str], minute: str, hour: str, weekday: str, at: int) -> None:
    name, begins = day
    zone, text = ZoneInfo(name), f"{minute} {hour} * * {weekday}"
    begin = datetime.fromisoformat(begins).replace(tzinfo=UTC) - timedelta(hours=24)
    end, behind = begin + timedelta(hours=84), begin + timedelta(hours=20, minutes=at, seconds=at % 60)
    expected = [run for run in runs(parse_cron(text), zone, begin, end) if run > behind]
    found = EPOCH + timedelta(milliseconds=Schedule(cron=text, zone=name).next((behind - EPOCH) // timedelta(milliseconds=1)))
    if expected:
        assert (found, text) == (expected[0], text)
    else:
        assert found >= end - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "zone", "behind", "following"),
    [
        ("30 2 * * *", "Europe/Berlin", "2024-03-30T12:00+01:00", ["2024-03-31T03:00+02:00", "2024-04-01T02:30+02:00"]),
        ("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00+02:00", ["2024-10-27T02:30+02:00", "2024-10-28T02:30+01:00"]),
        ("30 * * * *", "Europe/Berlin", "2024-03-31T01:00+01:00", ["2024-03-31T01:30+01:00", "2024-03-31T03:30+02:00"]),
        ("30 * * * *", "Europe/Berlin", "2024-10-27T02:00+02:00", ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00"]),
        ("0,30 2,3 * * *", "Europe/Berlin", "2024-03-31T00:00+01:00", ["2024-03-31T03:00+02:00", "2024-03-31T03:30+02:00"]),
        ("0 0 * * *", "America/Havana", "2024-03-09T12:00-05:00", ["2024-03-10T01:00-04:00", "2024-03-11T00:00-04:00"]),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T12:00-10:00", ["2011-12-31T00:00+14:00", "2012-12-30T12:00+14:00"]),
        ("0 0 * * *", "Africa/Monrovia", "1972-01-06T23:00-00:44:30", ["1972-01-07T00:44+00:00", "1972-01-08T00:00+00:00"]),
        ("*/50 * * * *", "Africa/Monrovia", "1972-01-06T23:55-00:44:30", ["1972-01-07T00:50+00:00", "1972-01-07T01:00+00:00"]),
        ("0 0 29 2 *", "UTC", "2096-03-01T00:00+00:00", ["2104-02-29T00:00+00:00", "2108-02-29T00:00+00:00"]),
    ],
)
def test_where_clocks_are_put_forward_and_back(text: str, zone: str, behind: str, following: list[str]) -> None:
    schedule, moment = Schedule(cron=text, zone=zone), ms(behind)
    for expected in following:
        moment = schedule.next(moment)
        assert shown(moment, zone) == expected


def test_missed_runs_come_once() -> None:
    hourly = Schedule(every=3_600_000)
    assert hourly.first(7) == 7
    assert hourly.following(0, 5) == 3_600_000
    assert hourly.following(0, 3_600_000) == 7_200_000
    assert hourly.following(0, 10 * 3_600_000 + 5) == 11 * 3_600_000  # by the dates of the first runs, whatever was late
    assert hourly.following(3_600_000, 0) == 7_200_000  # done before its date, as by a clock that was set back
    nightly = Schedule(cron="0 4 * * *")
    assert nightly.first(0) == 4 * 3_600_000
    assert nightly.following(4 * 3_600_000, 3 * 86_400_000) == 3 * 86_400_000 + 4 * 3_600_000


@pytest.mark.parametrize(
    ("given", "schedule"),
    [
        ({}, None),
        ({"every": "1h"}, Schedule(every=3_600_000)),
        ({"every": Duration(5000)}, Schedule(every=5000)),
        ({"cron": " 0  4 * * * "}, Schedule(cron="0 4 * * *")),
        ({"cron": "0 4 * * *", "zone": "Europe/Berlin"}, Schedule(cron="0 4 * * *", zone="Europe/Berlin")),
    ],
)
def test_schedules_are_read_as_they_are_written(given: dict[str, Any], schedule: Schedule | None) -> None:
    assert read_schedule(**given) == schedule
    assert schedule is None or str(schedule)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"every": "1h", "cron": "0 4 * * *"}, "not both"),
        ({"zone": "UTC"}, "zone alone"),
        ({"every": "1h", "zone": "UTC"}, "no zone"),
        ({"every": 60}, "no duration"),
        ({"every": "60"}, "no unit"),
        ({"every": "10ms"}, "cannot run every"),
        ({"every": "99999d"}, "cannot run every"),
        ({"every": "soon"}, "no duration"),
        ({"cron": "hourly"}, "1 fields"),
        ({"cron": "0 0 31 2 *"}, "never come"),
        ({"cron": "0 4 * * *", "zone": "Europe"}, "no time zone"),
        ({"cron": "0 4 * * *", "zone": "Europe/Berlim"}, "no time zone"),
        ({"cron": "0 4 * * *", "zone": "../etc/passwd"}, "no time zone"),
        ({"cron": "0 4 * * *", "zone": "a\0b"}, "no time zone"),
        ({"cron": "0 4 * * *", "zone": ""}, "no time zone"),
        ({"cron": "0 4 * * *", "zone": 7}, "no time zone"),
    ],
)
def test_what_is_no_schedule_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_schedule(**given)
    assert why in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("moment", [-(2**62), 2**62])
def test_dates_beyond_the_calendar_are_refused(moment: int) -> None:
    with pytest.raises(BadInput, match="calendar"):
        Schedule(cron="0 4 * * *").next(moment)


def test_the_end_of_the_calendar_is_told() -> None:
    with pytest.raises(BadInput, match="calendar"):
        Schedule(cron="0 0 29 2 *").next(ms("9998-12-31T00:00+00:00"))
    assert zone_named("UTC").key == "UTC"


@pytest.mark.parametrize(
    "given", [{"every": "90s"}, {"every": "never"}, {"cron": "0 6 * * 1-5", "zone": "Europe/Berlin"}, {"cron": "*/5 * * * *"}]
)
def test_a_schedule_is_sent_and_written_so_that_it_can_be_read(given: dict[str, str]) -> None:
    schedule = read_schedule(**given)
    assert schedule is not None
    assert read_schedule(**send_schedule(schedule)) == schedule == schedule_of(str(schedule))


def test_clocks_that_are_put_forward_within_a_minute_show_whole_minutes_behind_it() -> None:
    schedule = Schedule(cron="*/50 * * * *", zone="Africa/Monrovia")  # at midnight its clocks were put forward by 44:30
    moment = ms("1972-01-06T23:55-00:44:30")
    for _ in range(3):
        moment = schedule.next(moment)
        assert moment % 60_000 == 0
