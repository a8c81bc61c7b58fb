from __future__ import annotations

from datetime import date, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.queue.cron import parse_cron


def test_fields_are_numbers_names_ranges_steps_and_lists() -> None:
    found = parse_cron(" 0,30  */6 1-5,20-30/5 jan,MAR-may  mon-fri ")
    assert found.text == "0,30 */6 1-5,20-30/5 jan,MAR-may mon-fri"
    assert [sorted(field) for field in (found.minutes, found.hours)] == [[0, 30], [0, 6, 12, 18]]
    assert sorted(found.days) == [1, 2, 3, 4, 5, 20, 25, 30]
    assert [sorted(field) for field in (found.months, found.weekdays)] == [[1, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert parse_cron("5/20 * * * *").minutes == {5, 25, 45}
    assert parse_cron("0 0 * * 7").weekdays == parse_cron("0 0 * * sun").weekdays == {0}
    assert parse_cron("0 0 * * 5-7").weekdays == {5, 6, 0}
    assert parse_cron("* * * * *").every_hour
    assert parse_cron("* */1 * * *").every_hour
    assert not parse_cron("* */2 * * *").every_hour


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("@daily", "1 fields"),
        ("60 * * * *", "no minute"),
        ("-1 * * * *", "no minute"),
        ("* 24 * * *", "no hour"),
        ("* * 0 * *", "no day of the month"),
        ("* * 32 * *", "no day of the month"),
        ("* * * 13 *", "no month"),
        ("* * * juni *", "no month"),
        ("* * * * 8", "no day of the week"),
        ("* * * * mo", "no day of the week"),
        ("*/0 * * * *", "no minute"),
        ("*/x * * * *", "no minute"),
        ("5-1 * * * *", "backwards"),
        ("1,,2 * * * *", "no minute"),
        ("1- * * * *", "no minute"),
        ("٣ * * * *", "no minute"),
        ("99999999999999999999 * * * *", "no minute"),
        ("* * ? * *", "no day of the month"),
        ("* * L * *", "no day of the month"),
        ("0 0 30 2 *", "never come"),
        ("0 0 31 4,6,9,11 *", "never come"),
        (7, "no cron expression"),
        (None, "no cron expression"),
    ],
)
def test_what_is_no_expression_is_refused(text: Any, why: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_cron(text)
    assert why in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 * * *", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("0 0 29 2 *", ["2024-02-29", "2028-02-29", "2032-02-29"]),
        ("0 0 31 * *", ["2024-03-31", "2024-05-31", "2024-07-31"]),
        ("0 0 * * sun", ["2024-03-03", "2024-03-10", "2024-03-17"]),
        ("0 0 1 * mon", ["2024-03-01", "2024-03-04", "2024-03-11"]),  # either
        ("0 0 */10 * mon", ["2024-03-11", "2024-04-01", "2024-07-01"]),  # both
        ("0 0 29 2 */7", ["2032-02-29", "2060-02-29"]),
    ],
)
def test_the_days_of_an_expression(text: str, days: list[str]) -> None:
    found = parse_cron(text).days_from(date(2024, 2, 28))
    assert [day.isoformat() for day in islice(found, len(days))] == days


@given(st.dates(min_value=date(1970, 1, 1), max_value=date(2090, 1, 1)), st.sampled_from(["* * * 2,11 *", "0 0 13 * fri", "0 0 13 * */5"]))
def test_no_day_is_passed_over(first: date, text: str) -> None:
    expression, end = parse_cron(text), first + timedelta(days=800)
    found = [day for day in islice(expression.days_from(first), 900) if day < end]
    assert found == [day for number in range(800) if expression.has(day := first + timedelta(days=number))]


def test_the_calendar_ends() -> None:
    assert list(parse_cron("0 0 1 1 *").days_from(date(9998, 6, 1))) == [date(9999, 1, 1)]
    assert list(parse_cron("0 0 31 12 *").days_from(date(9999, 12, 31))) == [date(9999, 12, 31)]
