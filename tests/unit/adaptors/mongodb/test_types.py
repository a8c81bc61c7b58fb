"""What needs no server: options, and BSON as extended JSON and back through the log's own text."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import bson
import pytest
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import ConfigurationError, OperationFailure

from headwater.adaptors.mongodb.adaptor import MongoDB, mongodb
from headwater.adaptors.mongodb.oplog import OplogChange, _message
from headwater.adaptors.mongodb.source import KINDS, _text, kind_of, range_of
from headwater.adaptors.mongodb.types import CODEC, NO_TEXT, from_json, to_json
from headwater.core.errors import BadConfig, BadInput, Denied, HeadwaterError, Unreachable
from headwater.pipeline import values
from headwater.pipeline.env import env
from headwater.pipeline.message import Op


def through_the_log(data: bytes) -> bytes:
    """BSON read as the source reads it, logged as text, and written as the sink writes it."""
    document = bson.decode(data, CODEC)
    logged = values.store(to_json(document))
    return bson.encode({name: from_json(value) for name, value in values.decode(logged).items()})


SAMPLES: dict[str, Any] = {
    "id": ObjectId("0123456789abcdef01234567"),
    "int": 5,
    "least int": -(1 << 31),
    "small long": Int64(5),
    "long": Int64(1 << 62),
    "double": 1.5,
    "whole double": 5.0,
    "negative zero": -0.0,
    "large double": 1e22,
    "tiny double": 5e-324,
    "nan": float("nan"),
    "infinity": float("-inf"),
    "decimal": Decimal128("1.10"),
    "large decimal": Decimal128("1E+6000"),
    "no decimal": Decimal128("NaN"),
    "bytes": b"\x00\xff",
    "binary": Binary(b"x", 5),
    "old binary": Binary(b"x", 2),
    "uuid": Binary(bytes(range(16)), 4),
    "date": datetime(2020, 1, 2, 3, 4, 5, 678000, UTC),
    "old date": datetime(1, 1, 1, tzinfo=UTC),
    "far date": DatetimeMS(1 << 60),
    "stamp": Timestamp(4294967295, 7),
    "pattern": Regex("a/b.*", "imx"),
    "code": Code("f()"),
    "scoped code": Code("f()", {"a": Int64(1)}),
    "least": MinKey(),
    "most": MaxKey(),
    "pointer": DBRef("other", ObjectId("0123456789abcdef01234567"), "db", extra=Int64(1)),
    "text": "ü",
    "nothing": None,
    "true": True,
    "nested": {"list": [1, Int64(1), {"deep": Decimal128("0")}, [], {}], "b": 1, "a": 2},
    "names": {"$odd": 1, "a.b": 2, "": 3},
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_very_same_bson_comes_back(name: str) -> None:
    data = bson.encode({"_id": 1, "value": SAMPLES[name], "list": [SAMPLES[name]]})
    assert through_the_log(data) == data


_plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1).map(Int64),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")),
    st.binary(max_size=20),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20).map(Decimal128),
)
_names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=5).filter(
    lambda name: not name.startswith("$")
)
_any = st.recursive(_plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4), max_leaves=15)


@given(st.dictionaries(_names, _any, max_size=5))
def test_any_document_comes_back(document: dict[str, Any]) -> None:
    data = bson.encode(document)
    assert through_the_log(data) == data


@pytest.mark.parametrize("inner", [{"$oid": "0123456789abcdef01234567"}, {"$numberLong": "5"}, {"$date": 1}, {"$code": "x", "$scope": {}}])
def test_a_document_that_looks_like_a_type_is_not_guessed_at(inner: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="takes for a type"):
        to_json({"_id": 1, "deep": [{"value": inner}]})


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}, Binary(bytes(range(16)), 4)),
        ({"$date": "2020-01-02T03:04:05Z"}, datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ({"$date": {"$numberLong": "0"}}, DatetimeMS(0)),
        ({"$numberInt": "7"}, 7),
        ({"$symbol": "x"}, "x"),
        ({"$binary": "eA==", "$type": "05"}, Binary(b"x", 5)),
        ({"$regex": "a", "$options": "i"}, Regex("a", "i")),
        (Decimal("1.10"), Decimal128("1.10")),
        (1 << 70, Decimal128(str(1 << 70))),
        ({"$oid": "no id"}, {"$oid": "no id"}),
        ({"$numberLong": "x"}, {"$numberLong": "x"}),
    ],
)
def test_other_sources_values(value: Any, read: Any) -> None:
    assert from_json(value) == read


@pytest.mark.parametrize("value", [10**40 + 1, Decimal("0." + "1" * 40), object()])
def test_what_bson_cannot_hold(value: Any) -> None:
    with pytest.raises(BadInput):
        from_json({"deep": [value]})


def test_ids_are_told_apart_by_kind() -> None:
    ids = [MinKey(), None, 1, "a", {"a": 1}, b"x", ObjectId(), True, datetime.now(UTC), Timestamp(1, 1), MaxKey()]
    assert [kind_of(one) for one in ids] == list(range(len(KINDS)))
    assert {kind_of(one) for one in (1, Int64(1), 1.5, Decimal128("1"))} == {2}


def test_behind_nan_come_all_other_numbers() -> None:
    assert range_of({"types": ["double"]}, {"after": {"$numberDouble": "NaN"}}) == {"_id": {"$type": ["double"], "$gte": -math.inf}}
    assert range_of({"types": ["minKey"]}, {"after": {"$minKey": 1}}) == {"_id": {"$type": ["minKey"], "$ne": MinKey()}}
    assert range_of({"types": ["maxKey"]}, {"after": {"$maxKey": 1}}) == {"_id": {"$type": ["maxKey"], "$ne": MaxKey()}}
    assert range_of({"from": 1, "before": 5}, {"after": 3}) == {"_id": {"$gt": 3, "$lt": 5}}
    assert range_of({"from": 1, "before": 5}, None) == {"_id": {"$gte": 1, "$lt": 5}}
    assert range_of({}, {"after": None}) == {"_id": {"$gt": None}}
    assert range_of({}, None) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 0},
        {"batch": True},
        {"tail": "yes"},
        {"collection_filters": "{"},
        {"collection_filters": {"orders": "open"}},
        {"collection_filters": ["orders"]},
        {"tial": True},
    ],
)
def test_an_option_without_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadConfig):
        mongodb("mongodb://x/shop", **options)


def test_filters_may_be_json_text() -> None:
    adaptor = mongodb("mongodb://x/shop", collection_filters='{"orders": {"at": {"$gt": {"$date": "2020-01-01T00:00:00Z"}}}}')
    assert adaptor.filters() == {"orders": {"at": {"$gt": datetime(2020, 1, 1, tzinfo=UTC)}}}


@pytest.mark.parametrize("uri", ["", "mongodb://", "http://user:secret@x/shop", "mongodb://user:secret@x", "mongodb://user:sec/ret@x/shop"])
def test_an_address_that_is_none_is_not_shown(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", uri)
    with pytest.raises(BadConfig, match=r"\$\{MONGODB_URI\}") as told:
        mongodb(env("MONGODB_URI")).connect()
    assert "sec" not in str(told.value)


@pytest.mark.parametrize("uri", ["mongodb://user:sec@ret@x/shop", "mongodb://user:sec%ret@x/shop", "mongodb://user:secret@x:99999/shop"])
def test_an_address_in_the_file_is_told_without_its_password_and_with_how_to_write_one(uri: str) -> None:
    with pytest.raises(BadConfig, match="is no address of MongoDB") as told:
        mongodb(uri).connect()
    assert "sec" not in str(told.value)
    assert "%40 for @" in told.value.hint


def test_a_name_of_hosts_that_cannot_be_looked_up_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uri: str) -> Any:
        raise ConfigurationError("The DNS query name does not exist: _mongodb._tcp.shop.example.")

    monkeypatch.setattr(
        "headwater.adaptors.mongodb.connection.parse_uri", unknown
    )  # what the client says depends on the network that a test runs in
    with pytest.raises(
        Unreachable, match=r"mongodb\+srv://shop\.example/shop cannot be reached: The DNS query name does not exist"
    ) as told:
        mongodb("mongodb+srv://user:secret@shop.example/shop").connect()
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [("serverSelectTimeoutMS=5", "Unknown option"), ("connectTimeoutMS=abc", "integer"), ("tls=true&tlsCAFile=/absent", "No such file")],
)
def test_a_wrong_option_of_the_address_is_named(options: str, said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        mongodb(f"mongodb://x/shop?{options}").connect()


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (18, Denied, "Look at the URI"),
        (13, Denied, "Grant the user the right"),
        (2, BadInput, "Look at collection_filters"),
        (11600, Unreachable, "See its log"),
    ],
)
def test_what_a_refused_request_means(code: int, kind: type[HeadwaterError], hint: str) -> None:
    with mongodb("mongodb://user:secret@x/shop").connect() as link:
        told = link.explained(OperationFailure("no, and here is why", code))
    assert type(told) is kind
    assert told.hint.startswith(hint)
    assert "secret" not in str(told)


def test_it_travels_and_never_shows_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://user:secret@nowhere.invalid/shop")
    adaptor = pickle.loads(pickle.dumps(mongodb("${MONGODB_URI}", collection_filters={"a": {"b": 1}})))
    assert isinstance(adaptor, MongoDB)
    assert "secret" not in f"{adaptor} {adaptor!r}"
    with adaptor.connect() as link:
        assert link.where == "nowhere.invalid:27017/shop"


def test_text_that_is_no_utf_8_is_a_record_that_could_not_be_read() -> None:
    """No server refuses it. It must not end the reading of all other documents."""
    document = bson.decode(bson.encode({"_id": 1, "text": "abc"}).replace(b"abc", b"a\xffc"), CODEC)
    assert _text(document, 1) == (b'{"_id":1}', NO_TEXT)
    message, wrong, _ = _message(OplogChange("c", Op.INSERT, 1, Timestamp(1, 1), document), {})
    assert (message is not None, wrong) == (True, NO_TEXT)


@pytest.mark.parametrize("primary", [True, False])
def test_whoever_follows_asks_the_primary(primary: bool) -> None:
    """Two secondaries need not have the same: what one tells of in its oplog the other may still have as it was."""
    with mongodb("mongodb://h/db?readPreference=secondary&readPreferenceTags=dc:a", tail=primary).connect() as link:
        assert (link.database.read_preference.mode == 0, link.oplog.read_preference.mode == 0) == (primary, primary)


@pytest.mark.parametrize("number", [7, -(1 << 31), 1 << 40])
def test_a_long_is_an_integer_to_transforms_and_to_everybody_but_mongodb(number: int) -> None:
    logged = values.store(to_json({"_id": Int64(number), "qty": Int64(number)}))
    document = values.decode(logged)
    assert document["qty"] * 2 == number * 2
    assert isinstance(document["qty"], int)
    assert values.encode(document) == f'{{"_id":{number},"qty":{number}}}'.encode() == values.unmarked(logged)
    assert {name: type(from_json(value)) for name, value in document.items()} == dict.fromkeys(
        ("_id", "qty"), Int64 if number < 1 << 31 else int
    )
