"""The decision of columns: by a sample, extended, and as the offset log keeps it."""

from __future__ import annotations

from decimal import Decimal

from headwater.adaptors.file.parquet_columns import RULES as PARQUET
from headwater.adaptors.sqlite.columns import RULES
from headwater.pipeline.columns import ColumnNeeds, ColumnType
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.column_decision import ColumnDecision, decided
from headwater.pipeline.offsets.state import SinkState, State, from_record, to_record, with_all

SAMPLE = [("t", Message("t", {"_id": 1, "n": 1})), ("t", Message("t", {"n": 2})), ("u", Message("u", {"_id": "x", "at": {"$date": 0}}))]


def test_a_sample_decides_columns_and_key_of_each_table() -> None:
    decision = decided(SAMPLE, RULES)
    assert {name: one.shown() for name, one in decision.tables.items()} == {
        "t": {"_id": "int", "n": "int"},
        "u": {"_id": "text", "at": "moment"},
    }
    assert [one.key for one in decision.tables.values()] == [("_id",), ("_id",)]
    assert decision.sampled == 3
    assert decided(SAMPLE, PARQUET).tables["t"].key == ()


def test_of_two_names_that_differ_in_nothing_but_case_the_first_is_decided() -> None:
    """Two parts may ask for one each."""
    sample = [("t", Message("t", {"a": 1, "b": 1})), ("t", Message("t", {"A": 1}))]
    decision = decided(sample, PARQUET)
    assert list(decision.tables["t"].columns) == ["a", "b"]
    later = decision.extended(ColumnNeeds("t", {"B": ColumnType("text"), "c": ColumnType("text")}, {"B": 7, "c": 7}), PARQUET, at=5)
    assert list(later.tables["t"].columns) == ["a", "b", "c"]
    assert later.extended(ColumnNeeds("t", {"C": ColumnType("text")}, {"C": 8}), PARQUET, at=6) is later


def test_what_is_needed_later_is_told() -> None:
    decision = decided(SAMPLE, RULES)
    needs = ColumnNeeds("t", {"n": ColumnType("decimal", whole=1, scale=1), "new": ColumnType("text")}, {"n": 17, "new": 17})
    wider = decision.extended(needs, RULES, at=5)
    assert wider.tables["t"].shown() == {"_id": "int", "n": "decimal", "new": "text"}
    assert [(one.column, one.before, one.after, one.offset, one.at) for one in wider.changes] == [
        ("n", "INTEGER", "NUMERIC", 17, 5),
        ("new", "", "TEXT", 17, 5),
    ]
    assert wider.extended(needs, RULES, at=6) is wider
    assert decision.extended(ColumnNeeds("t", {"n": ColumnType("text")}, {"n": 18}), RULES, at=6) is decision  # that is refused


def test_the_first_columns_of_a_table_are_no_change() -> None:
    decision = ColumnDecision().extended(ColumnNeeds("t", {"a": ColumnType("bool")}, {"a": 3}, ("a",)), RULES, at=1)
    assert (decision.changes, decision.tables["t"].key) == ((), ("a",))


def test_only_the_last_changes_are_kept() -> None:
    decision = decided(SAMPLE, RULES)
    for number in range(150):
        decision = decision.extended(ColumnNeeds("t", {f"c{number}": ColumnType("bool")}, {f"c{number}": number}), RULES, at=number)
    assert (len(decision.changes), decision.changes[-1].column, len(decision.tables["t"].columns)) == (100, "c149", 152)


def test_the_offset_log_keeps_it_and_forgets_it_with_the_sink() -> None:
    documents = [{"_id": 1, "v": {"a": [Decimal("1.50"), {"b": "x"}]}}, {"_id": 2, "w": [{"b": True}]}]
    decision = decided([("", Message("t", one)) for one in documents], PARQUET)
    assert from_record(to_record("columns/s", decision, now=0)) == ("columns/s", decision)
    state = State()
    for key, value in (("sink/s", SinkState()), ("columns/s", decision)):
        state.apply(key, value)
    assert state.after([]).columns == {"s": decision}
    gone = state.after(with_all(state, [("sink/s", None)]))
    assert (gone.sinks, gone.columns) == ({}, {})
