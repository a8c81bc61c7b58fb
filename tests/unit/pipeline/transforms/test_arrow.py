"""arrow(fn): documents as columns and back."""

from __future__ import annotations

import pickle
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark import cloudpickle

from headwater.core.errors import BadConfig, Rejected
from headwater.pipeline.long_integer import Long
from headwater.pipeline.message import Message, Op
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms import arrow
from headwater.pipeline.transforms.columns import array_of, batch_of, messages_of
from headwater.pipeline.values import encode


def messages(*documents: dict[str, Any], namespace: str = "shop", first: int = 10) -> list[Message]:
    return [Message(namespace, data, offset=first + i) for i, data in enumerate(documents)]


def applied(fn: Any, *documents: dict[str, Any], **options: Any) -> list[dict[str, Any] | None]:
    """What the function makes of documents, having travelled as Spark sends it."""
    given = messages(*deepcopy(documents))
    made = chain([pickle.loads(cloudpickle.dumps(arrow(fn, **options)))])(given)
    assert [one.offset for one in made if one is not None] == [m.offset for m, one in zip(given, made, strict=True) if one is not None]
    return [None if one is None else one.data for one in made]


def types(*values: Any) -> list[Any]:
    """The type that a column of these values gets, and what it then holds."""
    batch = batch_of(messages(*[{} if value is ... else {"f": value} for value in values]))
    assert batch.schema.names[0] == "_offset"
    if "f" not in batch.schema.names:
        return []
    field = batch.schema.field("f")
    return [f"{field.type}{' json' if field.metadata else ''}", batch.column("f").to_pylist()]


BIG = 1 << 70


@pytest.mark.parametrize(
    ("values", "kind", "held"),
    [
        ([1, -5, ...], "int64", [1, -5, None]),
        ([(1 << 63) - 1, -(1 << 63)], "int64", [(1 << 63) - 1, -(1 << 63)]),
        ([1 << 63], "decimal128(20, 0)", [Decimal(1 << 63)]),
        ([BIG, 1], "decimal128(28, 0)", [Decimal(BIG), Decimal(1)]),
        ([10**50], "decimal256(51, 0)", [Decimal(10**50)]),
        ([10**80], "string json", [str(10**80)]),
        ([1.5, None], "double", [1.5, None]),
        ([1, 1.5], "double", [1.0, 1.5]),
        ([(1 << 53) + 1, 1.5], "decimal128(22, 2)", [Decimal((1 << 53) + 1), Decimal("1.5")]),
        ([Decimal("1.10"), 2, 1.5], "decimal128(12, 2)", [Decimal("1.10"), Decimal("2.00"), Decimal("1.50")]),
        ([Decimal("1E+400")], "string json", ["1E+400"]),
        ([Decimal("0.001")], "decimal128(14, 4)", [Decimal("0.001")]),
        ([Decimal("1E+3")], "decimal128(10, 0)", [Decimal(1000)]),
        (["a", None, "ü"], "string", ["a", None, "ü"]),
        ([True, False], "bool", [True, False]),
        ([True, 1], "string json", ["true", "1"]),
        (["5", 5], "string json", ['"5"', "5"]),
        ([None, ...], "null", [None, None]),
        ([{"$date": "2024-02-29T00:00:00Z"}], "timestamp[us, tz=UTC]", [datetime(2024, 2, 29, tzinfo=UTC)]),
        ([{"$binary": {"base64": "AAE=", "subType": "00"}}], "binary", [b"\x00\x01"]),
        ([{"$numberLong": "5"}, 6], "int64", [5, 6]),
        ([Long(5), 6], "int64", [5, 6]),
        ([{"$numberDecimal": "1.10"}], "decimal128(12, 2)", [Decimal("1.10")]),
        ([{"$numberDecimal": "NaN"}], "string json", ['{"$numberDecimal":"NaN"}']),
        ([{"$oid": "507f"}], "string", ["507f"]),
        ([{"$uuid": "3b241101-e2bb-4255-8caf-4136c566a962"}], "string", ["3b241101-e2bb-4255-8caf-4136c566a962"]),
        ([{"$date": "2024-02-29T00:00:00Z"}, "soon"], "string json", ['{"$date":"2024-02-29T00:00:00Z"}', '"soon"']),
        ([{"a": 1}, {"b": "x"}, None], "struct<a: int64, b: string>", [{"a": 1, "b": None}, {"a": None, "b": "x"}, None]),
        ([[1, 2], [], None], "list<item: int64>", [[1, 2], [], None]),
        ([[{"a": 1}], [{"a": None}]], "list<item: struct<a: int64>>", [[{"a": 1}], [{"a": None}]]),
        ([[]], "list<item: null>", [[]]),
        ([{}], "string json", ["{}"]),
        ([{"a": {}}], "string json", ['{"a":{}}']),
        ([[1, "x"]], "string json", ['[1,"x"]']),
        ([[1], 1], "string json", ["[1]", "1"]),
    ],
)
def test_a_columns_type_is_found_from_its_values(values: list[Any], kind: str, held: list[Any]) -> None:
    assert types(*values) == [kind, held]


@given(st.lists(st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False)), min_size=1, max_size=4))
@example([Decimal("0.00"), Decimal("1E+3")])
@example([Decimal(10**37), Decimal("0.01")])
@example([Decimal("1.5"), Decimal("-1.5"), None])
def test_a_column_of_decimals_holds_each_of_them_with_its_places(values: list[Decimal | None]) -> None:
    try:
        kind = pa.array(values).type  # as Arrow finds it
    except pa.ArrowInvalid:
        kind = pa.string()
    found = array_of(values, 76)
    if pa.types.is_string(kind):
        assert found is None
        return
    assert found is not None
    assert found.to_pylist() == values
    if pa.types.is_decimal(kind):
        assert found.type.scale >= kind.scale
        assert found.type.precision - found.type.scale >= kind.precision - kind.scale


def test_the_batch_says_whose_it_is() -> None:
    batch = batch_of(messages({"b": 1}, {"a": 2, "b": 3}))
    assert batch.schema.names == ["_offset", "b", "a"]
    assert batch.column("_offset").to_pylist() == [10, 11]
    assert batch.schema.metadata == {b"headwater.namespace": b"shop"}


ODD = [{"$numberLong": "5"}, {"$numberDouble": "NaN"}, {"$binary": "AA==", "$type": "00"}, {"$oid": "507f"}, {"$timestamp": {"t": 1}}]
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(1 << 63), (1 << 63) - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8"), max_size=4),
        st.datetimes(timezones=st.just(UTC)).map(lambda one: {"$date": one.isoformat()}),
        st.sampled_from(
            [{"$numberLong": "5"}, {"$numberDouble": "NaN"}, {"$binary": "AA==", "$type": "00"}, {"$oid": "507f"}, {"$timestamp": {"t": 1}}]
        ),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), min_size=1, max_size=5)


@given(DOCUMENTS)
def test_what_is_not_changed_comes_back_exactly(documents: list[dict[str, Any]]) -> None:
    given = messages(*documents)
    batch = batch_of(given)
    made = messages_of(given, batch, batch)
    assert [encode(one.data) for one in made if one] == [encode(data) for data in documents]
    as_table = messages_of(given, batch, pa.Table.from_batches([batch]))
    assert as_table == made


@given(DOCUMENTS, st.data())
def test_rows_that_are_left_out_are_dropped_and_the_others_stay(documents: list[dict[str, Any]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents)))
    made = applied(lambda batch: batch.filter(pa.array(chosen, pa.bool_())), *documents)
    assert [one is not None for one in made] == chosen
    assert [one for one in made if one is not None] == [one for one, kept in zip(documents, chosen, strict=True) if kept]


def test_columns_are_added_changed_and_removed() -> None:
    def total(batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch.append_column("total", pc.multiply(batch["price"], batch["qty"]))
        return batch.drop_columns(["card"]).set_column(1, "name", pc.utf8_upper(batch["name"]))

    made = applied(
        total,
        {"name": "ann", "price": 2, "qty": 3, "card": "x", "at": {"$date": {"$numberLong": "5"}}},
        {"name": "BOB", "price": 2, "card": "x"},
    )
    assert made == [
        {"name": "ANN", "price": 2, "qty": 3, "at": {"$date": {"$numberLong": "5"}}, "total": 6},
        {"name": "BOB", "price": 2, "total": None},
    ]


def test_a_changed_value_leaves_its_neighbours_exact() -> None:
    def shift(batch: pa.RecordBatch) -> pa.RecordBatch:
        moved = pc.if_else(
            pc.equal(batch["_offset"], 11), pa.scalar(datetime(2024, 1, 1, tzinfo=UTC), pa.timestamp("us", "UTC")), batch["at"]
        )
        return batch.set_column(1, "at", moved)

    odd = {"$date": {"$numberLong": "5"}}
    assert applied(shift, {"at": odd}, {"at": odd}, {}) == [{"at": odd}, {"at": {"$date": "2024-01-01T00:00:00.000Z"}}, {}]


def test_pythons_types_of_columns_become_extended_json() -> None:
    def add(batch: pa.RecordBatch) -> pa.Table:
        rows = len(batch)
        return (
            pa.Table.from_batches([batch])
            .append_column("when", pa.array([datetime(2024, 2, 29)] * rows, pa.timestamp("ms")))
            .append_column("data", pa.array([b"\x00"] * rows))
            .append_column("price", pa.array([Decimal("1.10")] * rows))
            .append_column("nested", pa.array([{"b": b"\x00"}] * rows))
            .append_column("nan", pa.array([float("nan")] * rows))
        )

    [made] = applied(add, {"a": 1})
    assert encode(made) == (
        b'{"a":1,"when":{"$date":"2024-02-29T00:00:00.000Z"},"data":{"$binary":{"base64":"AA==","subType":"00"}},"price":1.10,'
        b'"nested":{"b":{"$binary":{"base64":"AA==","subType":"00"}}},"nan":{"$numberDouble":"NaN"}}'
    )


def test_a_mixed_column_is_json_text_and_read_as_such_while_it_says_so() -> None:
    def rewrite(keep_metadata: bool) -> Any:
        def change(batch: pa.RecordBatch) -> pa.RecordBatch:
            field = batch.schema.field("m")
            assert batch["m"].to_pylist() == ["5", '"x"']
            return batch.set_column(1, field if keep_metadata else "m", pa.array(["5", "6"]))

        return change

    assert applied(rewrite(True), {"m": 5}, {"m": "x"}) == [{"m": 5}, {"m": 6}]
    assert applied(rewrite(False), {"m": 5}, {"m": "x"}) == [{"m": 5}, {"m": "6"}]


def test_a_number_made_text_is_text() -> None:
    def as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "n", batch["n"].cast(pa.string()))

    assert applied(as_text, {"n": 5}) == [{"n": "5"}]
    assert applied(as_text, {"n": Decimal("1.10")}) == [{"n": "1.10"}]


def test_a_value_of_another_type_is_another_value() -> None:
    def cast(kind: pa.DataType) -> Any:
        return lambda batch: batch.set_column(1, "n", batch["n"].cast(kind))

    [number] = applied(cast(pa.int64()), {"n": True})
    [fraction] = applied(cast(pa.float64()), {"n": 5})
    assert (encode(number), encode(fraction)) == (b'{"n":1}', b'{"n":5.0}')


def test_what_stands_beside_a_nan_stays_exact() -> None:
    document = {"a": [{}, {"b": {"$numberDouble": "NaN"}}], "c": {"$numberDouble": "NaN"}}
    assert applied(lambda batch: batch, document) == [document]


def test_namespaces_come_apart_and_order_is_kept() -> None:
    seen: list[tuple[bytes, list[int]]] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append((batch.schema.metadata[b"headwater.namespace"], batch["_offset"].to_pylist()))
        return batch.filter(pc.not_equal(batch["_offset"], 2))

    mixed = [Message("ab"[i % 2], {"v": i if i % 2 else str(i)}, offset=i) for i in range(5)]
    made = chain([arrow(look)])(mixed)
    assert seen == [(b"a", [0, 2, 4]), (b"b", [1, 3])]
    assert made == [mixed[0], mixed[1], None, mixed[3], mixed[4]]


def test_commands_pass_by() -> None:
    command = Message("shop", {"drop": "table"}, Op.COMMAND, offset=1)
    assert chain([arrow(lambda batch: batch.slice(0, 0))])([command, Message("shop", {}, offset=2)]) == [command, None]


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda batch: None, "It returned NoneType"),
        (lambda batch: batch.drop_columns(["_offset"]), "no column _offset"),
        (lambda batch: pa.concat_batches([batch, batch]), "a row twice"),
        (lambda batch: batch.take(pa.array([0, 0])), "a row twice"),
        (lambda batch: batch.take(pa.array(range(len(batch) - 1, -1, -1))), "in another order"),
        (lambda batch: batch.set_column(0, "_offset", pa.array([1000] * len(batch))), "_offset 1000, which it was not given"),
        (lambda batch: batch.set_column(0, "_offset", pa.array([None] * len(batch), pa.int64())), "_offset None, which it was not given"),
        (lambda batch: batch["nosuch"], "KeyError"),
        (lambda batch: batch.append_column("d", pc.divide(batch["n"], 0)), "divide by zero"),
    ],
)
def test_what_goes_wrong_is_told_at_the_first_message(fn: Any, said: str) -> None:
    with pytest.raises(Rejected, match=r"^Transform arrow\(<lambda>\) raised ") as problem:
        applied(fn, {"n": 1}, {"n": 2})
    assert said in problem.value.message
    assert problem.value.offset == 10
    assert "Traceback" in problem.value.trace


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), min_size=1, max_size=20))
def test_the_first_message_that_it_raises_for_is_found(rows: list[tuple[str, bool]]) -> None:
    step = chain([arrow(lambda batch: batch.append_column("d", pc.divide(10, batch["n"])))])
    given = [Message(namespace, {"n": int(good)}, offset=100 + i) for i, (namespace, good) in enumerate(rows)]
    bad = [one.offset for one in given if not one.data["n"]]
    if bad:
        with pytest.raises(Rejected, match="divide by zero") as problem:
            step(given)
        assert problem.value.offset == bad[0]
    else:
        assert all(step(given))


@pytest.mark.parametrize("keeps_id", [False, True])
def test_parts_of_a_refused_batch_get_the_documents_as_they_were(keeps_id: bool) -> None:
    """The function is called again with the same messages: those that it was given before must not have been changed."""

    def once_more(batch: pa.RecordBatch) -> pa.RecordBatch:
        twice = pc.multiply(batch.column("n"), 2)
        return batch.set_column(batch.schema.get_field_index("n"), "n", pc.divide(pa.scalar(12), pc.subtract(twice, 10)))

    for bad in range(8):
        given = messages(*({"_id": n, "n": 5 if n == bad else 1} for n in range(8)))
        before = deepcopy(given)
        with pytest.raises(Rejected) as refused:
            chain([arrow(once_more, keeps_id=keeps_id)])(given)
        assert refused.value.offset == 10 + bad
        assert given[bad:] == before[bad:]


def test_finding_it_takes_few_calls() -> None:
    calls = []

    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(len(batch))
        return batch.append_column("d", pc.divide(10, batch["n"]))

    with pytest.raises(Rejected) as problem:
        chain([arrow(divide)])(messages(*[{"n": int(i != 700)} for i in range(1000)]))
    assert problem.value.offset == 710
    assert len(calls) <= 12


def test_what_only_happens_to_the_whole_is_told_at_its_first_message() -> None:
    def few(batch: pa.RecordBatch) -> pa.RecordBatch:
        if len(batch) > 2:
            raise ValueError("too many")
        return batch

    with pytest.raises(Rejected, match="too many") as problem:
        chain([arrow(few)])(messages({}, {}, {}, {}))
    assert problem.value.offset == 10


def test_a_field_named_as_the_column_of_offsets_is_refused_at_its_message() -> None:
    with pytest.raises(Rejected, match="_offset") as problem:
        applied(lambda batch: batch, {"a": 1}, {"_offset": 5})
    assert problem.value.offset == 11


def test_keeping_ids() -> None:
    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(1, "_id", pc.add(batch["_id"], pc.if_else(pc.equal(batch["_offset"], 11), 1, 0)))

    with pytest.raises(Rejected, match="changed the id 2 to 3") as problem:
        applied(change, {"_id": 1}, {"_id": 2}, keeps_id=True)
    assert problem.value.offset == 11
    assert applied(change, {"_id": 1}, {"_id": 2}) == [{"_id": 1}, {"_id": 3}]
    assert applied(lambda batch: batch, {"_id": {"$numberLong": "1"}}, keeps_id=True) == [{"_id": {"$numberLong": "1"}}]


SCHEMA = pa.schema(
    [("n", pa.int64()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC")), ("s", pa.string()), ("x", pa.float64())]
)


def test_a_schema_fixes_types_and_reads_text() -> None:
    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names[:6] == ["_offset", "n", "price", "at", "s", "x"]
        assert [batch.schema.field(name).type for name in SCHEMA.names] == SCHEMA.types
        return batch.append_column("twice", pc.multiply(batch["n"], 2))

    documents = [
        {"n": "5", "price": "1.5", "at": "2024-02-29T00:00:00Z", "s": "a", "x": 1},
        {"n": 5.0, "price": 1.5, "at": {"$date": 0}, "s": None, "x": Decimal("1.10")},
        {"n": {"$numberLong": "5"}, "price": 2, "other": [1]},
    ]
    made = applied(look, *documents, schema=SCHEMA)
    assert made == [{**one, "twice": 10} for one in documents]
    assert applied(look, {}, schema=SCHEMA) == [{"twice": None}]


@pytest.mark.parametrize("value", ["many", 1.5, 1 << 63, [5], {"a": 1}, True])
def test_a_value_that_does_not_fit_the_schema_is_refused_at_its_message(value: Any) -> None:
    with pytest.raises(Rejected, match="The field n is no int64") as problem:
        applied(lambda batch: batch, {"n": 1}, {"n": value}, {"n": 2}, schema=SCHEMA)
    assert problem.value.offset == 11


@pytest.mark.parametrize("call", [lambda: arrow(5), lambda: arrow(), lambda: arrow(len, schema="n int"), lambda: arrow(len, shema=SCHEMA)])
def test_what_is_wrong_is_an_error_of_the_pipelines_file(call: Any) -> None:
    with pytest.raises(BadConfig):
        call()
