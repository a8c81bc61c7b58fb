"""sql(expression): on a real Spark session, and what is said where there is none."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from quick_spark import quick

from headwater.core.errors import BadConfig, Rejected, Unavailable, Unsupported
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms import omit, sql
from headwater.pipeline.transforms.sql import Sql
from headwater.pipeline.values import encode
from headwater.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# -- without Spark ------------------------------------------------------------------------------------------------


def test_where_no_session_is_it_says_so() -> None:
    with pytest.raises(Unsupported, match="this process has no Spark session") as problem:
        chain([sql("*")])
    assert "headwater pipeline run" in problem.value.hint


def test_it_says_where_it_has_to_be_applied() -> None:
    assert sql("*").needs_session
    assert not omit("a").needs_session
    assert not sql("*").keeps_id
    assert sql("*", keeps_id=True).keeps_id
    assert str(sql("*, a + 1 AS b", where="a > 0")) == "sql(*, a + 1 AS b where a > 0)"


@pytest.mark.parametrize(
    "call", [lambda: sql(""), lambda: sql(5), lambda: sql("*", where=" "), lambda: sql("*", schema=5), lambda: sql("*", were="x")]
)
def test_what_is_wrong_is_an_error_of_the_pipelines_file(call: Any) -> None:
    with pytest.raises(BadConfig):
        call()


# -- on Spark -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session(quick(), archive="use")
    yield started
    started.stop()


def applied(spark: SparkSession, transform: Any, *documents: dict[str, Any]) -> list[dict[str, Any] | None]:
    """What the expression makes of documents, which must stay as they were."""
    given = [Message("shop", data, Op.UPDATE, 5, Mode.SYNC, 10 + i, ("_id",)) for i, data in enumerate(documents)]
    before = deepcopy(given)
    travelled = pickle.loads(pickle.dumps(transform))
    assert isinstance(travelled, Sql)
    made = travelled.applied(spark)(given)
    assert given == before
    for was, one in zip(given, made, strict=True):
        assert one is None or one == Message("shop", one.data, Op.UPDATE, 5, Mode.SYNC, was.offset, ("_id",))
    return [None if one is None else one.data for one in made]


ODD = {
    "_id": {"$oid": "507f"},
    "at": {"$date": {"$numberLong": "5"}},
    "raw": {"$binary": "AA==", "$type": "00"},
    "long": {"$numberLong": "7"},
    "exact": Decimal("1.10"),
    "big": 10**60,
    "nan": {"$numberDouble": "NaN"},
    "ts": {"$timestamp": {"t": 1, "i": 2}},
    "list": [1, {"a": None}],
    "null": None,
    "x.y": "dot",
}


@pytest.mark.spark
def test_what_the_expression_does_not_change_stays_exactly_as_it_was(spark: SparkSession) -> None:
    plain = {"_id": "5080", "list": [], "mixed": True}
    mixed = {"_id": 5, "mixed": "x", "null": 1}
    made = applied(spark, sql("*, upper('x') AS added"), ODD, plain, mixed)
    assert [encode(one) for one in made] == [encode({**one, "added": "X"}) for one in (ODD, plain, mixed)]


@pytest.mark.spark
def test_fields_are_added_replaced_removed_and_chosen(spark: SparkSession) -> None:
    documents = [{"_id": 1, "name": "ann", "price": Decimal("1.10"), "qty": 3}, {"_id": 2, "name": "bob", "qty": 1}]
    assert applied(spark, sql("*, price * qty AS total, upper(name) AS name"), *documents) == [
        {"_id": 1, "name": "ANN", "price": Decimal("1.10"), "qty": 3, "total": Decimal("3.30")},
        {"_id": 2, "name": "BOB", "qty": 1, "total": None},
    ]
    assert applied(spark, sql("* EXCEPT (price, qty)"), *documents) == [{"_id": 1, "name": "ann"}, {"_id": 2, "name": "bob"}]
    assert applied(spark, sql("_id, concat(name, '!') AS `the name`"), *documents) == [
        {"_id": 1, "the name": "ann!"},
        {"_id": 2, "the name": "bob!"},
    ]
    assert applied(spark, sql("*, timestamp'2024-02-29 00:00:00Z' AS at, X'00' AS raw -- a comment"), {"a": 1}) == [
        {"a": 1, "at": {"$date": "2024-02-29T00:00:00.000Z"}, "raw": {"$binary": {"base64": "AA==", "subType": "00"}}}
    ]


@pytest.mark.spark
def test_where_drops_what_is_not_true_and_keeps_the_order(spark: SparkSession) -> None:
    documents = [{"n": n} for n in (5, 0, None, 7)] + [{}]
    assert applied(spark, sql(where="n > 1"), *documents) == [{"n": 5}, None, None, {"n": 7}, None]
    assert applied(spark, sql("*", where="n IS NULL"), *documents) == [None, None, {"n": None}, None, {}]
    assert applied(spark, sql("n, row_number() OVER (ORDER BY n DESC) AS r", where="n > 1"), *documents) == [
        {"n": 5, "r": 2},
        None,
        None,
        {"n": 7, "r": 1},
        None,
    ]


@pytest.mark.spark
def test_a_field_that_no_document_has_is_null(spark: SparkSession) -> None:
    step = sql("*, coalesce(nick, name) AS shown, address.city AS city", where="gone IS NULL")
    assert applied(spark, step, {"name": "ann"}) == [{"name": "ann", "shown": "ann", "city": None}]
    assert applied(spark, step, {"name": "ann", "nick": "a", "address": {"city": "Bonn"}}) == [
        {"name": "ann", "nick": "a", "address": {"city": "Bonn"}, "shown": "a", "city": "Bonn"}
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    "step",
    [
        sql("*, PRICE * qty AS Total, upper(`na``me`) AS u, Address.City AS city", where="Qty > 0"),
        sql("*, price * qty AS Total, upper(`na``me`) AS u, address.city AS city -- in full", where="qty > 0"),
        sql("* EXCEPT (gone), price * qty AS Total, upper(`na``me`) AS u, address.city AS city", where="qty > 0"),
    ],
)
def test_a_star_is_the_same_whether_its_columns_travel_or_not(spark: SparkSession, step: Sql) -> None:
    document = {"price": 2, "other": {"$oid": "507f"}, "na`me": "ann", "address": {"city": "Bonn"}, "qty": 3, "list": [1, "x"]}
    gone = {"gone": 1} if "EXCEPT" in step.expression.text else {}
    made = applied(spark, step, {**document, **gone}, {"qty": 0}, {"price": 1, "qty": 1})
    assert made == [{**document, "Total": 6, "u": "ANN", "city": "Bonn"}, None, {"price": 1, "qty": 1, "Total": 1, "u": None, "city": None}]
    assert list(made[0] or ()) == [*document, "Total", "u", "city"]


@pytest.mark.spark
def test_what_except_leaves_out_does_not_travel_and_is_left_out(spark: SparkSession) -> None:
    document = {"_id": {"$oid": "507f"}, "Card": [1, "x"], "qty": 2, "big": 10**60}
    assert applied(spark, sql("* EXCEPT (card)"), document, {"qty": 1}) == [{"_id": {"$oid": "507f"}, "qty": 2, "big": 10**60}, {"qty": 1}]
    assert applied(spark, sql("* EXCEPT (card, gone), qty + 1 AS qty", where="qty > 1"), document, {"qty": 1}) == [
        {"_id": {"$oid": "507f"}, "qty": 3, "big": 10**60},
        None,
    ]
    assert applied(spark, sql("* EXCEPT (qty), qty AS n"), document) == [{"_id": {"$oid": "507f"}, "Card": [1, "x"], "big": 10**60, "n": 2}]
    with pytest.raises(Rejected, match="AMBIGUOUS_REFERENCE"):
        applied(spark, sql("* EXCEPT (card)"), document, {"card": 1})


@pytest.mark.spark
def test_a_star_inside_means_the_whole_document(spark: SparkSession) -> None:
    assert applied(spark, sql("*, to_json(struct(*)) AS copy"), {"a": 1, "b": "x"}) == [
        {"a": 1, "b": "x", "copy": '{"_offset":10,"a":1,"b":"x"}'}
    ]
    assert applied(spark, sql("*, a * 2 AS twice, upper(b) AS b"), {"b": "x", "a": 1}) == [{"b": "X", "a": 1, "twice": 2}]


@pytest.mark.spark
def test_namespaces_come_apart(spark: SparkSession) -> None:
    mixed = [Message("ab"[i % 2], {"v": i if i % 2 else str(i)}, offset=i) for i in range(4)]
    made = sql("typeof(v) AS t").applied(spark)(mixed)  # type: ignore[attr-defined]
    assert [(one.namespace, one.data["t"]) for one in made] == [("a", "string"), ("b", "bigint"), ("a", "string"), ("b", "bigint")]


@pytest.mark.spark
def test_a_schema_fixes_types_and_makes_an_unknown_name_an_error(spark: SparkSession) -> None:
    schema = "n BIGINT, price DECIMAL(10, 2), at TIMESTAMP, address STRUCT<city: STRING>"
    step = sql("*, typeof(n) AS t, price * 2 AS twice, year(at) AS y, address.city AS city", schema=schema)
    assert applied(spark, step, {"n": "5", "price": "1.5", "at": "2024-02-29T00:00:00Z"}, {"address": {}}) == [
        {"n": "5", "price": "1.5", "at": "2024-02-29T00:00:00Z", "t": "bigint", "twice": Decimal("3.00"), "y": 2024, "city": None},
        {"address": {}, "t": "bigint", "twice": None, "y": None, "city": None},
    ]
    with pytest.raises(Rejected, match="UNRESOLVED_COLUMN"):
        applied(spark, sql("pirce", schema=schema), {"n": 1})
    with pytest.raises(Rejected, match="The field n is no int64") as problem:
        applied(spark, sql("*", schema=schema), {"n": 1}, {"n": "many"})
    assert problem.value.offset == 11
    for wrong in ("n NONSENSE", "bigint"):
        with pytest.raises(BadConfig, match="is no schema"):
            applied(spark, sql("*", schema=wrong), {"n": 1})


@pytest.mark.spark
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (sql("*, 1 / n AS x"), "DIVIDE_BY_ZERO"),
        (sql("int(s) AS x"), "CAST_INVALID_INPUT"),
        (sql("a b c d"), "PARSE_SYNTAX_ERROR"),
        (sql("nosuch(n) AS x"), "UNRESOLVED_ROUTINE"),
        (sql("sum(n) AS x"), "MISSING_GROUP_BY"),
        (sql("explode(array(1, 2)) AS x"), "a row twice"),
        (sql("n + 1"), "has no name"),
        (sql("*, n + 1 AS x", where="x > 0"), "UNRESOLVED_COLUMN"),
        (sql("object.other AS x"), "FIELD_NOT_FOUND"),
        (sql("n AS `_id`", keeps_id=True), "changed the id 1 to 0"),
    ],
)
def test_what_goes_wrong_is_told_at_its_message(spark: SparkSession, step: Sql, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Rejected) as problem:
        applied(spark, step, {"_id": 1, "n": 0, "s": "x", "object": {"a": 1}})
    assert said in problem.value.message
    assert "\n" not in problem.value.message
    assert problem.value.offset == 10
    assert capfd.readouterr().err == ""
    assert spark.catalog.listTables() == []


@pytest.mark.spark
def test_the_message_is_found_that_the_expression_fails_for(spark: SparkSession) -> None:
    with pytest.raises(Rejected, match="DIVIDE_BY_ZERO") as problem:
        applied(spark, sql("*, 1 / n AS x"), {"n": 1}, {"n": 2}, {"n": 3}, {"n": 0}, {"n": 5}, {"n": 0})
    assert problem.value.offset == 13


@pytest.mark.spark
def test_it_goes_on_after_an_error_and_in_several_threads(spark: SparkSession) -> None:
    step = sql("*, 10 div n AS x").applied(spark)  # type: ignore[attr-defined]
    with pytest.raises(Rejected):
        step([Message("shop", {"n": 0}, offset=1)])
    found: dict[int, Any] = {}

    def work(n: int) -> None:
        found[n] = chain([sql("*, 10 div n AS x")])([Message("shop", {"n": n}, offset=1)])

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: made[0].data for n, made in found.items()} == {n: {"n": n, "x": 10 // n} for n in (1, 2, 5)}
    assert step([Message("shop", {"n": 5}, offset=1)])[0].data == {"n": 5, "x": 2}


@pytest.mark.spark
def test_inside_a_task_there_is_no_session(spark: SparkSession) -> None:
    def attempt(rows: Any) -> Any:
        from headwater.core.errors import Unsupported
        from headwater.pipeline.transforms import sql

        for _ in rows:
            try:
                sql("*").opened()
            except Unsupported as error:
                yield error.message

    [said] = spark.sparkContext.parallelize([1], 1).mapPartitions(attempt).collect()
    assert "this process has no Spark session" in said


@pytest.mark.spark
def test_a_session_that_is_gone_is_no_messages_fault() -> None:
    """The last one: it ends the session."""
    own = session(quick(), archive="use")
    step = sql("*").applied(own)  # type: ignore[attr-defined]
    own.stop()
    with pytest.raises((Unavailable, Unsupported)):
        step([Message("shop", {"n": 1}, offset=1)])
