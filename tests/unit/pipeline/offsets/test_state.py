"""The fold of the offset log: the last record of each key is all that counts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import Damaged
from headwater.log.record import Record
from headwater.pipeline.offsets.state import (
    Change,
    Dead,
    Edit,
    Entry,
    Failure,
    ReaderState,
    ReadingPosition,
    RunInfo,
    SinkState,
    State,
    from_record,
    to_record,
    with_all,
)

NAMES = st.sampled_from(["a", "b"])
SPACES = st.sampled_from(["x", "x/y", ""])
SMALL = st.integers(0, 3)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "run": st.builds(RunInfo, epoch=SMALL, id=NAMES, began=SMALL, claims=st.tuples(st.tuples(SMALL, SMALL))),
    "reading": st.builds(ReadingPosition, run=NAMES, upto=SMALL, finished=st.just(((0, 2),))),
    "reader": st.builds(ReaderState, run=NAMES, plan=st.just({"n": Decimal("1.10")}), begun=SMALL, cursor=st.just([1, "x"])),
    "sink": st.builds(
        SinkState,
        position=SMALL,
        taken=st.tuples(st.tuples(SMALL, SMALL)),
        failure=st.none() | st.just(Failure(offset=1, error="e", message="m")),
    ),
    "taken": SMALL,
    "edit": st.builds(Edit, data=st.just({"price": Decimal("1.10"), "big": 1 << 80}), who=NAMES),
    "dead": st.builds(Dead, sink=NAMES, offset=SMALL, error=st.just("E"), message=st.just("m")),
    "audit": st.builds(Entry, at=SMALL, who=NAMES, what=NAMES),
}
KEYS = st.one_of(
    st.just("run"),
    st.just("reader"),
    st.just("reading"),
    NAMES.map(lambda sink: f"sink/{sink}"),
    st.tuples(NAMES, SPACES).map(lambda one: f"taken/{one[0]}/{one[1]}"),
    SMALL.map(lambda offset: f"edit/{offset}"),
    st.tuples(SMALL, NAMES).map(lambda one: f"edit/{one[0]}/{one[1]}"),
    st.tuples(NAMES, SMALL).map(lambda one: f"dead/{one[0]}/{one[1]}"),
    NAMES.map(lambda name: f"audit/{name}"),
)
CHANGES = st.lists(
    KEYS.flatmap(lambda key: st.tuples(st.just(key), st.none() | VALUES[key.partition("/")[0]])),
    max_size=25,
)


def fold(records: list[Record]) -> dict[str, Any]:
    state = State()
    for record in records:
        change = from_record(record)
        assert change is not None
        state.apply(*change)
    return vars(state)


ONE_SINK = st.lists(
    st.one_of(st.tuples(st.just("sink/a"), st.none() | st.just(SinkState())), st.tuples(st.just("taken/a/x"), st.none() | SMALL)),
    max_size=6,
)


@given(CHANGES | ONE_SINK)
def test_the_last_record_of_each_key_is_all_that_counts(changes: list[Change]) -> None:
    """What compaction of the offset log relies upon."""
    records = [to_record(key, value, now=0) for key, value in changes]
    last = {record.key: i for i, record in enumerate(records)}
    kept = [record for i, record in enumerate(records) if last[record.key] == i]
    assert fold(kept) == fold(records)
    living = [record for record in kept if record.value is not None]
    assert fold(living) == fold(records)


@given(CHANGES)
def test_a_record_says_what_was_changed(changes: list[Change]) -> None:
    for key, value in changes:
        assert from_record(to_record(key, value, now=5)) == (key, value)
        assert to_record(key, value, now=5).timestamp == 5


def test_numbers_of_a_correction_stay_exact() -> None:
    edit = Edit(
        data={
            "price": Decimal("1.10"),
            "big": 123456789012345678901234567890,
            "huge": Decimal("1E+400"),
            "f": 1.0,
            "deep": [-0.0, float("nan")],
            "short": Decimal("1.25"),
            "whole": Decimal(5),
        }
    )
    change = from_record(to_record("edit/5", edit, now=0))
    assert change is not None
    assert isinstance(change[1], Edit)
    assert repr(change[1].data) == repr(edit.data)


def test_a_removed_sink_takes_with_it_what_it_had_taken() -> None:
    state = State()
    for key, value in [("sink/a", SinkState(position=5)), ("taken/a/x", 5), ("taken/a/y/z", 4), ("taken/ab/x", 3)]:
        state.apply(key, value)  # type: ignore[arg-type]
    changes = with_all(state, [("sink/a", None), ("audit/1", Entry(at=0, who="w", what="delete"))])
    assert sorted(key for key, value in changes if value is None) == ["sink/a", "taken/a/x", "taken/a/y/z"]
    for change in [*changes, ("sink/a", SinkState(position=1))]:
        state.apply(*change)
    assert state.taken == {"ab": {"x": 3}}
    assert state.sink("a").position == 1


def test_an_unknown_kind_of_record_is_left_alone() -> None:
    assert from_record(Record(b"later/thing", b'{"a":1}')) is None
    assert from_record(Record(None, b"x")) is None


@pytest.mark.parametrize(("key", "value"), [(b"sink/a", b"not json"), (b"sink/a", b'{"position":"far"}'), (b"taken/a/x", b'"5"')])
def test_a_record_that_cannot_be_understood_is_damage(key: bytes, value: bytes) -> None:
    with pytest.raises(Damaged, match="Record 7 of the offset log"):
        from_record(Record(key, value, offset=7))


def test_a_sinks_own_correction_goes_before_everybodys() -> None:
    state = State()
    state.apply("edit/5", Edit(data={"who": "all"}))
    state.apply("edit/5/a", Edit(data={"who": "a"}))
    state.apply("edit/6/b", Edit(data={"who": "b"}))
    found = state.edit_for(5, "a")
    assert found is not None
    assert found.data == {"who": "a"}
    assert state.edits_of("a") == {5: {"who": "a"}}
    assert state.edits_of("b") == {5: {"who": "all"}, 6: {"who": "b"}}
    assert state.edit_for(6, "a") is None


def test_a_sink_is_stopped_by_a_message_not_by_a_batch() -> None:
    assert not SinkState().stopped
    assert SinkState(failure=Failure(offset=14, error="E", message="m")).stopped
    assert not SinkState(failure=Failure(offset=8, error="E", message="m", start=8, end=16)).stopped
