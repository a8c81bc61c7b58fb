"""The phase and cursor of each namespace."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.pipeline.offsets.state import ReaderState, State
from headwater.pipeline.operating.answers import NamespacePhase
from headwater.pipeline.operating.namespace_phases import namespace_phases

SLICES = [{"namespace": name, "spec": {}} for name in ("a", "a", "b")]


def state(**fields: Any) -> State:
    made = State()
    plan = {"identity": {}, "slices": SLICES, "ids": {"a": ["_id"], "b": ["_id"]}}
    made.apply("reader", ReaderState(run="r", plan=plan, begun=0, upto=0, **fields))
    made.apply("taken/sink/c", 3)  # a table that was made after the plan
    return made


def test_a_namespace_is_complete_when_its_own_copy_ends() -> None:
    found = namespace_phases(state(finished=((0, 1), (2, 3)), positions={"1": 17}))
    assert found[:2] == [
        NamespacePhase(namespace="a", phase="copy", cursor=[17], slices=2, finished=1),
        NamespacePhase(namespace="b", phase="complete", slices=1, finished=1),
    ]


@pytest.mark.parametrize(
    ("cursor", "shown"),
    [({"lsn": 5}, [{"lsn": 5}, {"lsn": 5}, {"lsn": 5}]), ({"a": {"0": 1}, "b": {"0": 2}}, [{"0": 1}, {"0": 2}, None])],
)
def test_a_followed_namespace_has_its_cursor(cursor: Any, shown: list[Any]) -> None:
    found = namespace_phases(state(finished=((0, 3),), copied=True, cursor=cursor))
    assert [one.cursor for one in found] == shown
    assert [one.phase for one in found][:2] == ["sync", "sync"]


def test_without_a_reader_nothing_is_known() -> None:
    assert namespace_phases(State()) == []
