"""Options are declared by a class; the function that takes them, its checks and its errors follow from that."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import pytest

from headwater.core.errors import BadConfig
from headwater.core.units import Duration, Size
from headwater.pipeline.adaptor import About, Adaptor
from headwater.pipeline.env import Env, env
from headwater.pipeline.options import Means, Names, Texts, factory, options_of, spelled


class Shop(Adaptor, frozen=True, kw_only=True):
    kind: ClassVar[str] = "shop"
    about: ClassVar[About] = About(summary="A shop.", namespace="a shelf", sample='shop("x")')

    uri: Annotated[str | Env, Means("Where it is.")]
    size: Annotated[Literal["small", "large"], Means("How large it is.")] = "small"
    open: Annotated[bool, Means("Whether it is open.")] = True
    doors: Annotated[int, Means("How many doors it has.", 1, 9)] = 2
    id: Annotated[Names, Means("The fields that tell documents apart.")] = ("_id",)
    client: Annotated[Texts, Means("Further settings.")] = msgspec.field(default_factory=dict)
    body: Annotated[Size, Means("Bytes at once.", 1 << 10, 1 << 20)] = Size(8 << 10)
    keep: Annotated[Duration, Means("How long.", 1000, 60_000)] = Duration(5000)
    inner: str = ""  # no option

    def checked(self) -> Self:
        if not self.open and self.doors > 2:
            raise BadConfig("A closed shop has at most two doors.")
        return msgspec.structs.replace(self, inner="checked")


shop = factory(Shop)


def test_the_function_takes_what_the_class_declares() -> None:
    parameters = inspect.signature(shop).parameters
    assert list(parameters) == ["uri", "size", "open", "doors", "id", "client", "body", "keep"]
    assert parameters["uri"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {one.kind for name, one in parameters.items() if name != "uri"} == {inspect.Parameter.KEYWORD_ONLY}
    assert inspect.signature(shop).return_annotation is Shop
    assert [one.default for one in parameters.values()][1:] == ["small", True, 2, "_id", None, "8KiB", "5s"]
    assert shop.__name__ == "shop"
    assert shop.__doc__ is not None
    assert "doors: How many doors it has." in shop.__doc__


def test_what_is_given_becomes_what_is_kept() -> None:
    made = shop(env("SHOP"), id=["a", "b"], client={"x": env("Y")}, body="16KiB", keep="10s", size="large", doors=3)
    assert made == Shop(
        uri=env("SHOP"),
        size="large",
        doors=3,
        id=("a", "b"),
        client={"x": env("Y")},
        body=Size(16 << 10),
        keep=Duration(10_000),
        inner="checked",
    )
    assert shop("x", id="n", client=None).id == ("n",)
    assert shop("x", client=None).client == {}
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"doors": 0}, "doors cannot be 0.", "Give a whole number from 1 to 9."),
        ({"doors": True}, "doors cannot be True.", "Give a whole number from 1 to 9."),
        ({"doors": "3"}, "doors cannot be a str.", "Give a whole number from 1 to 9."),
        ({"open": "yes"}, "open cannot be a str.", "Give True or False."),
        ({"size": "huge"}, "shop() knows no size 'huge'.", "Use one of small, large."),
        ({"size": []}, "shop() knows no size [].", "Use one of small, large."),
        ({"uri": 5}, "uri cannot be 5.", "Give text."),
        ({"uri": b"secret"}, "uri cannot be a bytes.", "Give text."),
        ({"id": [1]}, "id cannot be a list.", "Give a name, or a list of names."),
        (
            {"client": {"x": 1}},
            "client holds 'x', which is no text, or whose value is none.",
            'Give names with their values, as text: client={"name": "value"}.',
        ),
        ({"client": ["x"]}, "client cannot be a list.", 'Give names with their values, as text: client={"name": "value"}.'),
        ({"body": "8"}, "body cannot be '8'.", 'Give a size from 1KiB to 1MiB, such as "8KiB".'),
        ({"body": 8192}, "body cannot be 8192.", 'Give a size from 1KiB to 1MiB, such as "8KiB".'),
        ({"keep": "2h"}, "keep cannot be '2h'.", 'Give a time from 1s to 1m, such as "5s".'),
        ({"doors": 4, "open": False}, "A closed shop has at most two doors.", ""),
        ({"dors": 4}, "shop has no option dors.", "Did you mean doors?"),
        ({"inner": "x"}, "shop has no option inner.", "There are uri, size, open, doors, id, client, body, keep."),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(given: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(BadConfig) as problem:
        shop(**{"uri": "x", **given})
    assert (problem.value.message, problem.value.hint) == (message, hint)


def test_types_are_spelled_as_a_person_writes_them() -> None:
    accepted = {name: spelled(one.accepts) for name, one in options_of(Shop).items()}
    assert accepted == {
        "uri": "str | Env",
        "size": 'Literal["small", "large"]',
        "open": "bool",
        "doors": "int",
        "id": "str | Sequence[str]",
        "client": "Mapping[str, str | Env] | None",
        "body": "str",
        "keep": "str",
    }
    assert options_of(Shop)["id"].accepts == str | Sequence[str]
    assert options_of(Shop)["client"].accepts == Mapping[str, str | Env] | None
