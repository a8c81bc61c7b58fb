"""Totals: each call counts its rows once."""

from __future__ import annotations

from tests.unit.queue.played import Played

from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.totals import Totals


def test_totals_begin_with_nothing() -> None:
    assert {getattr(Totals(), name) for name in Totals.__slots__} == {0}


def test_each_call_counts_its_rows() -> None:
    played = Played(EffectiveSettings(max_timeouts=0))
    played.step("put", [{"key": key, "data": b"1"} for key in (b"a", b"b", b"c", b"d", b"e")])
    played.step("put", [{"key": b"a", "data": b"2"}, {"key": b"x", "data": b"1", "delay": 99, "expiration_date": 5}])
    played.step("claim", 4, 50, "g")
    for how in ("done", "released", "failed", "given_up"):
        played.step(how, 0, None)
    played.step("cancel", b"e")
    played.step("claim", 1, 50, "g")
    played.now += 60
    played.step("claim", 0, 50, "g")
    played.step("put", [{"key": b"u", "data": b"1", "unique_for": 9, "priority": 1}])
    played.step("claim", 1, 50, "g")
    played.step("done", len(played.claims) - 1, None)
    played.step("put", [{"key": b"u", "data": b"1", "unique_for": 9}])
    counted = {name: getattr(played.decisions.totals, name) for name in Totals.__slots__}
    assert counted == {
        "puts": 9, "merges": 1, "claims": 6, "done": 2, "released": 1, "failed": 2, "died": 2, "cancelled": 1, "timed_out": 1, "expired": 1,
        "told": 0, "failed_notices": 0, "ignored": 1,
    }  # fmt: skip
