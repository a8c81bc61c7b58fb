"""python(fn): functions of people."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from pyspark import cloudpickle

from headwater.core.errors import BadConfig, Rejected
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms import python
from headwater.pipeline.values import encode

GIVEN = Message("shop", {"_id": 1, "n": 5, "deep": {"list": [1]}}, Op.UPDATE, 99, Mode.SYNC, 14)


def applied(fn: Any, message: Message = GIVEN, **options: Any) -> Message | None:
    """What the function makes of a copy of a message, having travelled as Spark sends it."""
    transform = pickle.loads(cloudpickle.dumps(python(fn, **options)))
    [made] = chain([transform])([deepcopy(message)])
    return made


def test_an_object_becomes_the_data_and_nothing_else_changes() -> None:
    made = applied(lambda m: {"_id": m.data["_id"], "n": m.data["n"] + 1})
    assert made == Message("shop", {"_id": 1, "n": 6}, Op.UPDATE, 99, Mode.SYNC, 14)
    ordered = applied(lambda m: OrderedDict(n=1))
    assert ordered is not None
    assert type(ordered.data) is dict


def test_none_and_op_skip_drop() -> None:
    assert applied(lambda m: None) is None

    def skipping(message: Message) -> Message:
        message.op = Op.SKIP
        return message

    assert applied(skipping) is None


def test_the_message_may_be_changed_at_any_depth() -> None:
    def change(message: Message) -> Message:
        message.data["deep"]["list"].append(2)
        message.data["n"] += 1
        message.namespace = "other"
        message.op = Op.DELETE
        message.offset = 1000
        message.mode = Mode.COPY
        return message

    assert applied(change) == Message("other", {"_id": 1, "n": 6, "deep": {"list": [1, 2]}}, Op.DELETE, 99, Mode.SYNC, 14)


def test_what_a_new_message_leaves_out_is_as_it_was() -> None:
    given = Message("shop", {"order": 1, "line": 2}, Op.UPDATE, 99, Mode.SYNC, 14, ("order", "line"))
    made = applied(lambda m: Message(m.namespace, {**m.data, "x": 1}, m.op), given)
    assert made == Message("shop", {"order": 1, "line": 2, "x": 1}, Op.UPDATE, 99, Mode.SYNC, 14, ("order", "line"))
    other = applied(lambda m: Message(m.namespace, {"_id": "1-2"}, m.op), given)
    assert other is not None
    assert other.id_fields == ("_id",)
    assert other.id == "1-2"


def test_pythons_types_survive() -> None:
    made = applied(
        lambda m: {
            "when": datetime(2024, 2, 29, tzinfo=UTC),
            "data": b"\x00",
            "price": Decimal("1.10"),
            "id": UUID("3b241101-e2bb-4255-8caf-4136c566a962"),
            "n": np.int64(5),
            "nan": float("nan"),
            "pair": (1, 2),
        }
    )
    assert made is not None
    assert encode(made.data) == (
        b'{"when":{"$date":"2024-02-29T00:00:00.000Z"},"data":{"$binary":{"base64":"AA==","subType":"00"}},"price":1.10,'
        b'"id":{"$uuid":"3b241101-e2bb-4255-8caf-4136c566a962"},"n":5,"nan":{"$numberDouble":"NaN"},"pair":[1,2]}'
    )


def divide(message: Message) -> dict[str, Any]:
    return {"n": 1 // message.data["n"]}


def test_what_is_raised_makes_its_message_a_poison_record() -> None:
    messages = [Message("shop", {"n": n}, offset=offset) for offset, n in ((10, 1), (14, 0), (15, 1))]
    with pytest.raises(Rejected, match=r"^Transform python\(divide\) raised ZeroDivisionError: ") as problem:
        chain([python(divide)])(messages)
    assert problem.value.offset == 14
    assert "in divide" in problem.value.trace
    assert "pipeline edit" in problem.value.hint


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda m: 5, "It returned int"),
        (lambda m: [m], "It returned list"),
        (lambda m: True, "It returned bool"),
        (lambda m: {"x": object()}, "type object cannot be written as JSON"),
        (lambda m: {1: 2}, "key 1 of an object"),
        (lambda m: Message("ns", 5), "data is int"),
        (lambda m: Message("", {}), "namespace is ''"),
        (lambda m: Message("ns", {}, 7), "op is 7"),
        (lambda m: {}["x"], "KeyError: 'x'"),
    ],
)
def test_what_cannot_be_a_message_is_refused(fn: Any, said: str) -> None:
    with pytest.raises(Rejected, match=r"Transform python\(<lambda>\) raised") as problem:
        applied(fn)
    assert said in problem.value.message
    assert problem.value.offset == 14


@pytest.mark.parametrize("value", [2, "1", True, 1.0, None, Decimal(1)])
def test_a_changed_id_is_refused_where_keeping_was_promised(value: Any) -> None:
    with pytest.raises(Rejected, match="says keeps_id=True, and changed the id 1 to") as problem:
        applied(lambda m: {"_id": value}, keeps_id=True)
    assert problem.value.offset == 14
    made = applied(lambda m: {"_id": value})
    assert made is not None
    assert made.id == value


def test_a_kept_id_passes() -> None:
    given = Message("shop", {"_id": {"a": 1, "b": [1.5]}, "n": 1})
    assert applied(lambda m: {"_id": {"b": [1.5], "a": 1}}, given, keeps_id=True) is not None
    assert applied(lambda m: None, given, keeps_id=True) is None


def test_documents_of_several_namespaces_are_not_put_into_one_by_a_function_that_keeps_ids() -> None:
    """They would be written side by side, as documents of different places, and those of equal ids replace each other."""

    def elsewhere(message: Message) -> Message:
        message.namespace = "all"
        return message

    with pytest.raises(Rejected, match="says keeps_id=True, and changed the namespace orders to all") as problem:
        applied(elsewhere, Message("orders", {"_id": 1}, offset=7), keeps_id=True)
    assert (problem.value.offset, "remap" in problem.value.hint) == (7, True)
    moved = applied(elsewhere, Message("orders", {"_id": 1}, offset=7))
    assert moved is not None
    assert moved.namespace == "all"


def test_keeps_id_is_what_was_said() -> None:
    assert python(divide, keeps_id=True).keeps_id
    assert not python(divide).keeps(("_id",))


def test_any_callable_has_a_name() -> None:
    class Fix:
        def __call__(self, message: Message) -> Message:
            return message

    assert str(python(divide)) == "python(divide)"
    assert str(python(Fix())) == "python(Fix)"


@pytest.mark.parametrize("call", [lambda: python(5), lambda: python(), lambda: python(divide, keep_id=True)])
def test_what_is_wrong_is_an_error_of_the_pipelines_file(call: Any) -> None:
    with pytest.raises(BadConfig):
        call()


def test_a_decimal_and_a_float_in_one_sum_name_the_option_that_reads_floats() -> None:
    priced = Message("shop", {"_id": 1, "price": Decimal("1.25"), "shipping": 1}, offset=14)
    made = applied(lambda m: m.data | {"total": m.data["price"] + m.data["shipping"]}, priced)
    assert made is not None
    assert made.data["total"] == Decimal("2.25")
    with pytest.raises(Rejected, match="unsupported operand") as caught:
        applied(lambda m: m.data | {"total": m.data["price"] * 1.19}, priced)
    assert 'decimals="float"' in caught.value.hint
    assert 'Decimal("1.5")' in caught.value.hint
    with pytest.raises(Rejected) as other:
        applied(lambda m: m.data["price"] + "x", priced)
    assert "decimals" not in other.value.hint


def test_floats_that_a_function_makes_stay_floats() -> None:
    made = applied(lambda m: {"_id": 1, "f": 1.0, "n": np.float64(0.5), "nan": float("nan"), "d": Decimal("2")})
    assert made is not None
    assert repr(made.data) == "{'_id': 1, 'f': 1.0, 'n': 0.5, 'nan': nan, 'd': Decimal('2')}"
