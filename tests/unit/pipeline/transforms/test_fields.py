"""omit, pick, rename, remap, opfilter and pretty."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadConfig, Rejected
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.transform import Transform, chain
from headwater.pipeline.transforms import omit, opfilter, pick, pretty, remap, rename

DOCUMENT = {
    "_id": 7,
    "name": "Ann",
    "card": "4111",
    "address": {"city": "Bonn", "zip": "53111"},
    "items": [{"sku": 1, "n": 2}, {"sku": 3}],
    "x.y": 5,
}


def applied(transform: Transform, data: dict[str, Any]) -> dict[str, Any]:
    """What a transform makes of a document, which must stay as it was."""
    message = Message("ns", data, Op.UPDATE, 5, Mode.SYNC, 14, ("_id", "b"))
    before = deepcopy(message)
    travelled = pickle.loads(pickle.dumps(transform))
    [made] = chain([travelled])([message])
    assert made is not None
    assert message == before
    assert (made.namespace, made.op, made.timestamp, made.mode, made.offset, made.id_fields) == (
        "ns",
        Op.UPDATE,
        5,
        Mode.SYNC,
        14,
        ("_id", "b"),
    )
    return made.data


def left(*names: str) -> dict[str, Any]:
    return {name: value for name, value in DOCUMENT.items() if name not in names}


# -- omit, pick ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        (["card"], left("card")),
        (["card", "name", "nosuch"], left("card", "name")),
        (["address.zip"], {**DOCUMENT, "address": {"city": "Bonn"}}),
        (["address.zip", "card", "address.street"], {**left("card"), "address": {"city": "Bonn"}}),
        (["address", "address.zip"], left("address")),
        (["items.0"], {**DOCUMENT, "items": [{"sku": 3}]}),
        (["items.0", "items.1"], {**DOCUMENT, "items": []}),
        (["items.0", "items.0.sku", "items.1.sku", "items.0"], {**DOCUMENT, "items": [{}]}),
        (["items.5", "name.first", "card.0"], DOCUMENT),
        ([r"x\.y"], left("x.y")),
        (["x.y"], DOCUMENT),
    ],
)
def test_omit(fields: list[str], made: dict[str, Any]) -> None:
    assert applied(omit(*fields), DOCUMENT) == made


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        (["_id"], {"_id": 7}),
        (["name", "_id", "nosuch"], {"name": "Ann", "_id": 7}),
        (["nosuch"], {}),
        (["_id", "address.city"], {"_id": 7, "address": {"city": "Bonn"}}),
        (["address.city", "address"], {"address": DOCUMENT["address"]}),
        (["items.1.sku", "items.0.n"], {"items": [{"n": 2}, {"sku": 3}]}),
        (["items.1"], {"items": [{"sku": 3}]}),
        (["address.street"], {}),
        ([r"x\.y"], {"x.y": 5}),
    ],
)
def test_pick(fields: list[str], made: dict[str, Any]) -> None:
    assert applied(pick(*fields), DOCUMENT) == made


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
FLAT = st.dictionaries(NAMES, st.integers(0, 9))


@given(FLAT, st.lists(NAMES, min_size=1))
def test_omit_and_pick_part_a_document(data: dict[str, int], fields: list[str]) -> None:
    one, other = applied(omit(*fields), data), applied(pick(*fields), data)
    assert one == {name: value for name, value in data.items() if name not in fields}
    assert {**one, **other} == data
    assert not one.keys() & other.keys()


@given(FLAT, st.lists(NAMES, min_size=1))
def test_one_name_and_a_path_of_one_name_are_the_same(data: dict[str, int], fields: list[str]) -> None:
    for factory in (omit, pick):
        assert applied(factory(*fields), data) == applied(factory(*fields, "no.such"), data)


# -- rename -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mapping", "data", "made"),
    [
        ({"a": "b"}, {"a": 1, "c": 2}, {"b": 1, "c": 2}),
        ({"a": "b", "b": "a"}, {"a": 1, "b": 2}, {"b": 1, "a": 2}),
        ({"a": "b", "b": "c"}, {"a": 1, "b": 2, "c": 3}, {"b": 1, "c": 2}),
        ({"b": "c", "a": "b"}, {"a": 1, "b": 2, "c": 3}, {"b": 1, "c": 2}),
        ({"a": "b"}, {"b": 2}, {"b": 2}),
        ({"a": "b", "b": "a"}, {"b": 2}, {"a": 2}),
        ({"a": "a"}, {"a": 1}, {"a": 1}),
        ({"a": "b"}, {"a": None, "b": 5}, {"b": None}),
        ({"a.b": "c"}, {"a": {"b": 1, "x": 2}}, {"a": {"x": 2}, "c": 1}),
        ({"c": "a.b"}, {"c": 1}, {"a": {"b": 1}}),
        ({"c": "a.b"}, {"c": 1, "a": {"x": 2}}, {"a": {"x": 2, "b": 1}}),
        ({"a": "a.b"}, {"a": 1}, {"a": {"b": 1}}),
        ({"a.b": "a"}, {"a": {"b": 1}}, {"a": 1}),
        ({"a.x": "a.y", "a.y": "a.x"}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 2, "y": 1}}),
        ({"l.0": "first", "l.1": "second"}, {"l": [1, 2, 3]}, {"l": [3], "first": 1, "second": 2}),
        ({r"x\.y": "x.y"}, {"x.y": 1}, {"x": {"y": 1}}),
        ({"no.such": "b"}, {"a": 1}, {"a": 1}),
    ],
)
def test_rename(mapping: dict[str, str], data: dict[str, Any], made: dict[str, Any]) -> None:
    assert applied(rename(mapping), data) == made


@given(FLAT, st.dictionaries(NAMES, NAMES, min_size=1).filter(lambda one: len(set(one.values())) == len(one)), st.randoms())
def test_rename_does_not_depend_on_the_order_of_its_pairs(data: dict[str, int], mapping: dict[str, str], random: Any) -> None:
    kept = {name: value for name, value in data.items() if name not in mapping}
    expected = {**kept, **{new: data[old] for old, new in mapping.items() if old in data}}
    assert applied(rename(mapping), data) == expected
    pairs = list(mapping.items())
    random.shuffle(pairs)
    assert applied(rename(dict(pairs)), data) == expected
    assert applied(rename({**mapping, "no.such": "z"}), data) == expected  # the way that nested paths take


def test_renaming_into_a_value_is_refused_at_its_message() -> None:
    with pytest.raises(Rejected, match=r"rename\(a→b.c\) raised BadInput: Nothing can be put at b.c: b is a int") as problem:
        applied(rename({"a": "b.c"}), {"a": 1, "b": 2})
    assert problem.value.offset == 14
    assert "paths.py" in problem.value.trace


# -- whether ids stay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "keeps_id", "keeps_other"),
    [
        (omit("card"), True, True),
        (omit("_id"), False, True),
        (omit("_id.x"), False, True),
        (omit("card", "k"), True, False),
        (pick("_id", "k"), True, True),
        (pick("_id"), True, False),
        (pick("_id.x", "k"), False, True),
        (rename({"a": "b"}), True, True),
        (rename({"_id": "b"}), False, True),
        (rename({"a": "_id"}), False, True),
        (rename({"a": "k.x"}), True, False),
        (remap({"a": "b"}), True, True),
        (opfilter(only="insert"), True, True),
        (pretty(), True, True),
    ],
)
def test_a_transform_knows_which_ids_it_keeps(transform: Transform, keeps_id: bool, keeps_other: bool) -> None:
    assert transform.keeps(("_id",)) is keeps_id
    assert transform.keeps(("k",)) is keeps_other
    assert transform.keeps(("_id", "k")) is (keeps_id and keeps_other)
    if transform.keeps_id:
        assert keeps_id
        assert keeps_other


# -- remap --------------------------------------------------------------------------------------------------------


def named(transform: Transform, *namespaces: str) -> list[str]:
    made = chain([transform])([Message(name, {}) for name in namespaces])
    return [one.namespace for one in made if one is not None]


def test_remap_takes_whole_names() -> None:
    assert named(remap({"a": "b", "b": "a"}), "a", "b", "ab", "a") == ["b", "a", "ab", "b"]
    assert named(remap({"public.orders": "o"}), "publicXorders", "public.orders") == ["publicXorders", "o"]


def test_remap_by_expressions_takes_the_first_that_is_found() -> None:
    one = remap({r"^public\.": "shop.", r"^(?P<schema>\w+)\.(\w+)$": r"\2_\g<schema>", "x": "never"}, regex=True)
    given = ["public.orders", "audit.logs", "box", "plain", "public.public.a"]
    assert named(one, *given) == ["shop.orders", "logs_audit", "bonever", "plain", "shop.public.a"]


def test_remap_takes_commands_along() -> None:
    command = Message("public.t", {"command": "truncate"}, Op.COMMAND, offset=1)
    made = chain([omit("x"), remap({"public.t": "archive.t"})])([command, Message("public.t", {"x": 1}, offset=2)])
    assert [(one.namespace, one.op, one.data) for one in made if one is not None] == [
        ("archive.t", Op.COMMAND, {"command": "truncate"}),
        ("archive.t", Op.INSERT, {}),
    ]


def test_remap_leaves_commands_of_other_namespaces_alone() -> None:
    command = Message("public.u", {"command": "truncate"}, Op.COMMAND, offset=1)
    made = chain([remap({"public.t": "archive.t"}), remap({"public.u": "x"}).within(Namespaces("^public.t$"))])([command])
    assert made == [command]


def test_remap_leaves_the_original_alone() -> None:
    message = Message("a", {})
    chain([remap({"a": "b"})])([message])
    assert message.namespace == "a"


# -- opfilter -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "passing"),
    [
        ({"only": ["insert", "update"]}, "insert update command"),
        ({"whitelist": ["insert"]}, "insert command"),
        ({"only": "delete"}, "delete command"),
        ({"drop": ["delete"]}, "insert update command noop"),
        ({"blacklist": ["insert", "noop"]}, "update delete command"),
        ({"only": ["insert", "update"], "drop": ["update"]}, "insert command"),
        ({"only": []}, "command"),
        ({"drop": []}, "insert update delete command noop"),
        ({"only": ["INSERT", "command"]}, "insert command"),
    ],
)
def test_opfilter(options: dict[str, Any], passing: str) -> None:
    """Commands pass by; op skip drops by itself."""
    made = chain([opfilter(**options)])([Message("ns", {}, op) for op in Op])
    assert [None if one is None else one.op.name.lower() for one in made] == [
        op.name.lower() if op.name.lower() in passing.split() else None for op in Op
    ]


# -- pretty -------------------------------------------------------------------------------------------------------


@pytest.fixture
def lines() -> Iterator[list[str]]:
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    logger, handler = logging.getLogger("headwater.pipeline.pretty"), Kept()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_each_pretty_has_its_own_settings_and_passes_on(lines: list[str]) -> None:
    message = Message("shop", {"price": Decimal("1.10"), "name": "Ü"}, offset=14)
    both = chain([pretty(spaces=4), pretty(spaces=0)])
    [made] = both([message])
    assert made is message
    assert lines == ['shop insert 14:\n{\n    "price": 1.10,\n    "name": "Ü"\n}', 'shop insert 14: {"price": 1.10, "name": "Ü"}']


def test_where_nobody_has_set_logging_up_pretty_still_shows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As inside a Spark worker."""
    logger = logging.getLogger("headwater.pipeline.pretty")
    monkeypatch.setattr(logger, "propagate", False)
    try:
        chain([pretty(spaces=0)])([Message("shop", {"a": 1}, offset=1)])
        chain([pretty(spaces=0)])([Message("shop", {"a": 2}, offset=2)])
        assert capsys.readouterr().err == 'shop insert 1: {"a": 1}\nshop insert 2: {"a": 2}\n'
    finally:
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


# -- chains and options -------------------------------------------------------------------------------------------


def test_a_chain_goes_in_order_past_other_namespaces_and_commands() -> None:
    steps = [remap({"a": "b"}), omit("x").within(Namespaces("^b$")), rename({"y": "x"})]
    messages = [Message("a", {"x": 1, "y": 2}), Message("c", {"x": 1, "y": 2}), Message("a", {"x": 1}, Op.COMMAND)]
    assert [(one.namespace, one.data) for one in chain(steps)(messages) if one] == [("b", {"x": 2}), ("c", {"x": 2}), ("b", {"x": 1})]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: omit(), "omit needs a field"),
        (lambda: pick(), "pick needs a field"),
        (lambda: omit(["a", "b"]), "is no field"),  # type: ignore[arg-type]
        (lambda: omit("a..b"), "is no path"),
        (lambda: omit(fields=["a"]), "omit has no option fields"),  # type: ignore[call-arg]
        (lambda: rename({}), "names no fields"),
        (lambda: rename("a"), "names no fields"),  # type: ignore[arg-type]
        (lambda: rename({"a": 5}), "is no field"),  # type: ignore[dict-item]
        (lambda: rename({"a": "c", "b": "c"}), "two fields would be put at c"),
        (lambda: rename({"a": "c.d", "b": "c"}), "two fields would be put at c"),
        (lambda: rename(field_map={"a": "b"}), "rename has no option field_map"),  # type: ignore[call-arg]
        (lambda: remap({}), "names no namespaces"),
        (lambda: remap({"a": ""}), "cannot become ''"),
        (lambda: remap({"(": "a"}, regex=True), "no regular expression"),
        (lambda: remap({"a": r"\1"}, regex=True), "no regular expression"),
        (lambda: remap({"a": "b"}, regexp=True), "remap has no option regexp"),  # type: ignore[call-arg]
        (lambda: opfilter(), "opfilter says nothing"),
        (lambda: opfilter(only=["i"]), "'i' is no op"),
        (lambda: opfilter(only=["insert"], whitelist=["update"]), "two names of one option"),
        (lambda: opfilter(drop=["command"]), "cannot drop commands"),
        (lambda: opfilter(whitelst=["insert"]), "opfilter has no option whitelst"),  # type: ignore[call-arg]
        (lambda: pretty(spaces=-1), "cannot indent by -1"),
        (lambda: pretty(spaces="2"), "cannot indent by '2'"),  # type: ignore[arg-type]
        (lambda: pretty(space=2), "pretty has no option space"),  # type: ignore[call-arg]
    ],
)
def test_what_is_wrong_is_an_error_of_the_pipelines_file(call: Any, message: str) -> None:
    with pytest.raises(BadConfig, match=message.replace("(", r"\(")):
        call()


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (omit("a", "b.c"), "omit(a,b.c)"),
        (pick("a"), "pick(a)"),
        (rename({"a": "b"}), "rename(a→b)"),
        (remap({"a": "b"}), "remap(a→b)"),
        (opfilter(only=["update", "insert"], drop=["update"]), "opfilter(only=insert+update,drop=update)"),
        (pretty(), "pretty(spaces=2)"),
    ],
)
def test_a_transform_shows_as_it_was_written(transform: Transform, name: str) -> None:
    assert str(transform) == name


def test_a_broken_expression_of_remap_comes_with_what_to_write() -> None:
    with pytest.raises(BadConfig, match="is no regular expression") as no:
        remap({"(": "x"}, regex=True)
    assert "regex=True" in no.value.hint
