"""Messages and their ids."""

from __future__ import annotations

import pickle

import pytest

from headwater.core.errors import BadInput
from headwater.pipeline.message import Message, Mode, Op, op_named, op_said


def test_the_id_is_the_value_of_its_field() -> None:
    assert Message("ns", {"_id": 5}).id == 5
    assert Message("ns", {"_id": {"$oid": "507f"}}).id == {"$oid": "507f"}
    assert Message("ns", {"id": 5}).id is None
    assert Message("ns", {"id": 5}, id_fields=("id",)).id == 5


def test_the_id_of_several_fields_is_a_list_and_needs_all_of_them() -> None:
    assert Message("ns", {"a": 1, "b": 2}, id_fields=("b", "a")).id == [2, 1]
    assert Message("ns", {"a": 1}, id_fields=("a", "b")).id is None
    assert Message("ns", {"a": 1, "b": None}, id_fields=("a", "b")).id is None
    assert Message("ns", {"a": 1}, id_fields=()).id is None


@pytest.mark.parametrize("value", [0, "", False])
def test_an_id_may_be_an_empty_value(value: object) -> None:
    assert Message("ns", {"_id": value}).id == value
    assert Message("ns", {"a": value, "b": value}, id_fields=("a", "b")).id == [value, value]


def test_ops_have_the_numbers_of_the_log() -> None:
    assert [(op.name, op.value) for op in Op] == [("INSERT", 0), ("UPDATE", 1), ("DELETE", 2), ("COMMAND", 3), ("NOOP", 4), ("SKIP", 5)]


@pytest.mark.parametrize("name", ["insert", "INSERT", "Insert"])
def test_an_op_is_found_by_its_whole_name(name: str) -> None:
    assert op_named(name) is Op.INSERT


@pytest.mark.parametrize("name", ["", "i", "ins", "inserted", "unknown"])
def test_part_of_a_name_is_no_op(name: str) -> None:
    with pytest.raises(BadInput, match="no op") as problem:
        op_named(name)
    assert "insert, update, delete, command, noop, skip" in problem.value.hint


def test_messages_travel() -> None:
    message = Message("ns", {"_id": 1}, Op.UPDATE, 5, Mode.SYNC, 7, ("_id", "b"))
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize(
    ("said", "op"),
    [("insert", Op.INSERT), ("Update", Op.UPDATE), (b"delete", Op.DELETE)]
    + [(other, Op.INSERT) for other in ("skip", b"noop", "command", "", b"\xff", None, 5)],
)
def test_a_header_tells_changes_of_documents_alone(said: object, op: Op) -> None:
    assert op_said(said) is op
