from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from headwater.adaptors.documents.adaptor import documents
from headwater.adaptors.documents.messages import DocumentMessages, given_back, id_text, identified, path_of, write_of
from headwater.core.errors import BadInput
from headwater.documents.change import ChangeRecord, ResourceChange
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces

ALL = Namespaces()


def change(method: Any, **more: Any) -> ResourceChange:
    given: dict[str, Any] = {name: msgspec.Raw(one) if name in ("event", "body") else one for name, one in more.items()}
    return ResourceChange(method=method, revision=1, **given)


def told(path: str, uri: str, *changes: ResourceChange, chosen: Namespaces = ALL) -> list[tuple[Any, ...]]:
    found = DocumentMessages(documents(path), chosen).of_record(ChangeRecord(uri=uri, changes=changes), 7)
    assert all(one.timestamp == 7 and one.mode is Mode.SYNC for one, _ in found)
    return [(one.namespace, one.op, one.data, one.id, why) for one, why in found]


def test_a_change_is_the_state_after_it() -> None:
    put = change("put", item="hat", event=b'{"id":"hat","price":1.10}', created=True)
    patch = change("patch", item="hat", event=b'{"price":2}', body=b'{"id":"hat","price":2}')
    assert told("a~", "a~", put, patch, change("delete", item="hat"), change("delete")) == [
        ("a~", Op.INSERT, {"id": "hat", "price": Decimal("1.10")}, "hat", ""),
        ("a~", Op.UPDATE, {"id": "hat", "price": 2}, "hat", ""),
        ("a~", Op.DELETE, {"id": "hat"}, "hat", ""),
        ("a~", Op.COMMAND, {"command": "truncate"}, None, ""),
    ]


def test_documents_below_a_prefix_have_the_rest_of_their_path_as_id() -> None:
    put = change("put", event=b'{"open":true}')
    assert told("shop/", "shop/eu/settings", put, change("delete")) == [
        ("shop/", Op.UPDATE, {"_id": "eu/settings", "open": True}, "eu/settings", ""),
        ("shop/", Op.DELETE, {"_id": "eu/settings"}, "eu/settings", ""),
    ]
    assert told("/", "shop", put)[0][:3] == ("/", Op.UPDATE, {"_id": "shop", "open": True})
    assert told("shop/", "shop/list", change("put", event=b"[1]"))[0][2] == {"_id": "list", "data": [1]}
    ((*_, why),) = told("shop/", "shop/x", change("put", event=b'{"_id":5}'))
    assert "field _id of its own" in why


def test_only_what_was_chosen_is_told() -> None:
    put = change("put", event=b"{}")
    assert told("shop/", "other/x", put) == told("a~", "b~", put) == told("shop/", "shop", put) == []
    items, others = Namespaces("~$"), Namespaces("^shop/$")
    inside = change("put", item="x", event=b'{"id":"x"}')
    assert [bool(told("shop/", uri, one, chosen=items)) for uri, one in (("shop/a~", inside), ("shop/b", put))] == [True, False]
    assert [bool(told("shop/", uri, one, chosen=others)) for uri, one in (("shop/a~", inside), ("shop/b", put))] == [False, True]


def test_every_number_is_a_float_or_the_document_is_refused() -> None:
    made = DocumentMessages(documents("a~", decimals="float"), ALL)
    (message, why) = made.stored("a~", "x", b'{"id":"x","n":0.5}', mode=Mode.COPY)
    assert (message.data["n"], type(message.data["n"]), why) == (0.5, float, "")
    (message, why) = made.stored("a~", "x", b'{"id":"x","n":1e999,"m":0.5}', mode=Mode.COPY)
    assert (message.data["n"], message.data["m"]) == (Decimal("1E+999"), Decimal("0.5"))
    assert "beyond the largest float" in why
    (message, why) = DocumentMessages(documents("shop/", decimals="float"), ALL).stored("shop/a", "", b"1.5", mode=Mode.COPY)
    assert (message.data["data"], type(message.data["data"]), why) == (1.5, float, "")


def line(path: str, op: Op = Op.INSERT, namespace: str = "things", ids: tuple[str, ...] = ("_id",), **data: Any) -> tuple[Any, ...]:
    made = write_of(documents(path), Message(namespace, data, op, offset=5, id_fields=ids), "shop#g1")
    return made.method, made.path, values.decode(made.content) if made.content else None


def test_a_message_is_the_put_or_the_delete_of_its_id() -> None:
    assert line("a~", _id=3, n=None) == ("put", "a~/3", {"_id": 3, "n": None, "id": "3"})
    assert line("a~", Op.UPDATE, ids=("id",), id="hat") == ("put", "a~/hat", {"id": "hat"})
    assert line("a~", Op.DELETE, _id="hat") == ("delete", "a~/hat", None)
    assert line("a/", _id="b/c", n=1) == ("put", "a/b/c", {"n": 1})
    assert line("/", _id="b", n=1) == ("put", "b", {"n": 1})
    assert line("a~", n=1) == ("put", "a~/shop:g1-5", {"n": 1, "id": "shop:g1-5"})
    assert line("copy/{namespace}", Op.COMMAND, command="truncate") == ("delete", "copy/things~", None)
    assert [id_text(one) for one in ("a", 5, {"$oid": "65f0"}, [1, "b"])] == ["a", "5", "65f0", '[1,"b"]']


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"path": "a~", "_id": "b c"}, "may have"),
        ({"path": "a~", "_id": "b/c"}, "has a slash"),
        ({"path": "a~", "_id": ".."}, "segment"),
        ({"path": "a/", "_id": "c~"}, "it is a collection"),
        ({"path": "a/", "_id": "c~/d"}, "or in one"),
        ({"path": "a~", "op": Op.UPDATE, "n": 1}, "names no document"),
        ({"path": "a~", "op": Op.DELETE, "n": 1}, "names no document"),
        ({"path": "a~", "_id": 1, "id": "other"}, "one would replace the other"),
        ({"path": "a~", "id": "other"}, "one would replace the other"),
        ({"path": "a~", "op": Op.COMMAND, "command": "truncate"}, "also what other namespaces"),
        ({"path": "a/{namespace}", "op": Op.COMMAND, "command": "truncate", "namespace": "b/"}, "also what other namespaces"),
        ({"path": "a~", "op": Op.COMMAND, "command": "vacuum"}, "has no commands"),
        ({"path": "a/{namespace}", "namespace": "b c", "_id": 1}, "may have"),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput) as refused:
        line(**given)
    assert why in refused.value.message


def test_a_document_is_given_back_as_it_is_kept() -> None:
    made = documents("a~")
    message = Message("things", {"_id": 1, "n": None, "in": {"x": None, "y": 0.5}}, offset=1)
    id, data = identified(made, message, "p#1")
    assert (id, given_back(data, made.path)) == ("1", {"_id": 1, "in": {"y": Decimal("0.5")}, "id": "1"})
    assert given_back(message.data, made.path) == given_back(data, made.path)
    assert identified(documents("a/"), message, "p#1")[1]["_id"] == "1"
    assert path_of("a~", "x") == "a~/x"
