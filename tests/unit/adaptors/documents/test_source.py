"""Documents as a source: the copy, its seam with the changes, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.adaptors.documents.source import DocumentsSource
from headwater.core.errors import BadConfig, Differs, NotFound, OffsetGone
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import documents
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces

ALL = Namespaces()


def source(data: str, path: str, **options: Any) -> DocumentsSource:
    return DocumentsSource(documents(path, address=data, **options))


def copied(reading: DocumentsSource, plan: Any) -> list[Message]:
    return [message for part in plan.slices for piece in reading.read(part, None) for message in piece.messages]


def followed(reading: DocumentsSource, cursor: Any, chosen: Namespaces = ALL) -> tuple[list[Message], Any]:
    """What is there behind a cursor, and the position behind that."""
    found: list[Message] = []
    for piece in reading.follow(cursor, chosen, lambda: False):
        found += piece.messages
        cursor = piece.position
        if not piece.messages:
            break
    return found, cursor


def shown(messages: list[Message]) -> list[tuple[str, Op, Any]]:
    return [(one.namespace, one.op, one.id) for one in messages]


def test_a_copy_and_what_comes_behind_it(data: str, shop: Any) -> None:
    for name in "abc":
        shop["shop/hats~"].put(name, {"n": 1})
    shop["shop/open"].put({"yes": True})
    shop["other"].put({})
    reading = source(data, "shop/")
    plan = reading.plan(ALL, 4)
    found = copied(reading, plan)
    assert sorted(shown(found)) == [("shop/", Op.INSERT, "open"), *(("shop/hats~", Op.INSERT, name) for name in "abc")]
    shop["shop/hats~"].patch("a", {"n": 2})
    shop["shop/new~"].put("x", {})
    shop["shop/hats~"].delete("b")
    shop["other"].put({"more": 1})
    shop["shop/hats~"].delete()
    changes, position = followed(reading, plan.cursor)
    assert shown([one for one in changes if one.namespace == "shop/new~"]) == [("shop/new~", Op.INSERT, "x")]
    assert shown([one for one in changes if one.namespace != "shop/new~"]) == [
        ("shop/hats~", Op.UPDATE, "a"),
        ("shop/hats~", Op.DELETE, "b"),
        ("shop/hats~", Op.COMMAND, None),
    ]
    assert next(one for one in changes if one.id == "a").data == {"id": "a", "n": 2}
    assert followed(reading, position)[0] == []
    shop["shop/open"].delete()  # while nobody reads
    assert shown(followed(reading, position)[0]) == [("shop/", Op.DELETE, "open")]


def test_what_changes_during_the_copy_comes_with_its_change_alone(data: str, shop: Any) -> None:
    for number in range(20):
        shop["hats~"].put(f"h{number:02}", {"n": number})
    reading = source(data, "hats~")
    plan = reading.plan(ALL, 1)
    shop["hats~"].put("h05", {"n": "new"})
    shop["hats~"].delete("h06")
    shop["hats~"].put("h99", {})
    found, changes = copied(reading, plan), followed(reading, plan.cursor)[0]
    assert shown(changes) == [("hats~", Op.UPDATE, "h05"), ("hats~", Op.DELETE, "h06"), ("hats~", Op.INSERT, "h99")]
    assert [one.id for one in found] == [f"h{number:02}" for number in range(20) if number not in (5, 6)]


def test_a_copy_goes_on_within_a_collection(data: str, shop: Any) -> None:
    for path in ("a/x~", "a/y~", "a/z~"):
        shop.batch([("put", f"{path}/{number}", {}) for number in range(3)])
    shop["a/w"].put({})
    reading = source(data, "a/")
    plan = reading.plan(ALL, 2)
    assert len(plan.slices) == 2
    assert len({(one.namespace, one.id) for one in copied(reading, plan)}) == 10
    (whole,) = reading.plan(ALL, 1).slices
    rest = [(one.namespace, one.id) for piece in reading.read(whole, ["a/y~", "1"]) for one in piece.messages]
    assert rest == [("a/y~", "2"), ("a/z~", "0"), ("a/z~", "1"), ("a/z~", "2")]


def test_namespaces_choose_among_collections(data: str, shop: Any) -> None:
    shop["a/x~"].put("1", {})
    shop["a/y~"].put("1", {})
    shop["a/z"].put({})
    reading, chosen = source(data, "a/"), Namespaces("x~$")
    plan = reading.plan(chosen, 1)
    assert shown(copied(reading, plan)) == [("a/x~", Op.INSERT, "1")]
    shop["a/y~"].put("2", {})
    shop["a/x~"].put("2", {})
    assert shown(followed(reading, plan.cursor, chosen)[0]) == [("a/x~", Op.INSERT, "2")]
    with pytest.raises(NotFound, match="does not match"):
        source(data, "a/x~").check(Namespaces("y~"))


def test_an_unknown_place_is_told(data: str, shop: Any, tmp_path: Any) -> None:
    with pytest.raises(NotFound, match="no documents at"):
        source(data, "a~").plan(ALL, 1)
    with pytest.raises(NotFound, match="no data directory"):
        source(str(tmp_path / "none"), "a~").check(ALL)
    with pytest.raises(BadConfig, match="for sinks"):
        source(data, "{namespace}").plan(ALL, 1)
    shop["b"].put({})
    assert source(data, "a~").check(ALL) == [f"collection a~ at {data}"]
    assert source(data, "/").check(ALL) == [f"1 documents and collections below / at {data}"]


def test_documents_that_were_made_anew_are_told(data: str, shop: Any) -> None:
    shop["a~"].put("1", {})
    reading = source(data, "a~")
    plan = reading.plan(ALL, 1)
    assert reading.same(plan, ALL)
    cursor = plan.cursor | {"generation": "another"}
    with pytest.raises(Differs, match="made anew"):
        followed(reading, cursor)
    beyond = plan.cursor | {"at": {number: [where[0] + 5, 0] for number, where in plan.cursor["at"].items()}}
    with pytest.raises(Differs, match="read more than that"):
        followed(reading, beyond)


def test_changes_that_the_log_has_forgotten_are_told(data: str, shop: Any) -> None:
    for number in range(3):
        shop["a~"].put(str(number), {})
    reading = source(data, "a~")
    plan = reading.plan(ALL, 1)
    ((number, (end, _)),) = plan.cursor["at"].items()
    with EmbeddedLog(Path(data)) as log:
        log.claim("hyper-storage", int(number), part="documents").delete_before(end)
    with pytest.raises(OffsetGone, match="before the pipeline read them"):
        followed(reading, plan.cursor | {"at": {number: [0, 0]}})
    (part,) = plan.slices
    late = msgspec.structs.replace(part, spec=part.spec | {"at": {number: [0, 0]}})
    with pytest.raises(Differs, match="The copy needs them"):
        list(reading.read(late, None))
