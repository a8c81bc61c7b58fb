from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from headwater.core.document_errors import NotMatched, UnfitBody
from headwater.core.errors import BadInput
from headwater.documents.json_patch import apply_operations


def op(verb: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": verb, "path": path, **rest}


# The appendix of RFC 6902, and corners of RFC 6901.
RIGHT: list[tuple[Any, list[dict[str, Any]], Any]] = [
    ({"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    ({"foo": ["bar", "baz"]}, [op("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
    ({"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    ({"foo": ["bar", "qux", "baz"]}, [op("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
    ({"baz": "qux"}, [op("replace", "/baz", value="boo")], {"baz": "boo"}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [op("move", "/qux/thud", **{"from": "/foo/waldo"})],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    ({"foo": ["all", "grass", "cows", "eat"]}, [op("move", "/foo/3", **{"from": "/foo/1"})], {"foo": ["all", "cows", "eat", "grass"]}),
    ({"baz": "qux", "foo": ["a", 2, "c"]}, [op("test", "/baz", value="qux"), op("test", "/foo/1", value=2)], None),
    ({"foo": "bar"}, [op("add", "/child", value={"grandchild": {}})], {"foo": "bar", "child": {"grandchild": {}}}),
    ({"/": 9, "~1": 10}, [op("test", "/~01", value=10), op("test", "/~1", value=9)], None),
    ({"foo": ["bar"]}, [op("add", "/foo/-", value=["abc", "def"])], {"foo": ["bar", ["abc", "def"]]}),
    ({"a": [1]}, [op("replace", "/a/0", value=None)], {"a": [None]}),
    ({"a": [1]}, [op("copy", "/b", **{"from": "/a"}), op("add", "/b/-", value=2)], {"a": [1], "b": [1, 2]}),
    ({"": 1}, [op("replace", "/", value=2)], {"": 2}),
    ({"a": 1}, [op("replace", "", value=[1])], [1]),
    ({"a": 1}, [op("add", "", value=2)], 2),
    ({"a": {"b": 1}}, [op("move", "/a", **{"from": "/a/b"})], {"a": 1}),
    ({"a": 1}, [op("move", "/a", **{"from": "/a"})], {"a": 1}),
    ({"a": 1}, [], None),
]


@pytest.mark.parametrize(("target", "operations", "result"), RIGHT)
def test_operations_do_what_the_standard_says(target: Any, operations: Any, result: Any) -> None:
    before = repr(target)
    assert apply_operations(target, operations) == (target if result is None else result)
    assert repr(target) == before


@pytest.mark.parametrize(
    ("operations", "kind", "named"),
    [
        ({"op": "add"}, BadInput, "array"),
        ([1], BadInput, "Operation 0"),
        ([op("test", "/a", value=1), op("spread", "/a")], BadInput, "Operation 1 has op 'spread'"),
        ([{"op": "add", "value": 1}], BadInput, "no path"),
        ([op("add", "/a")], BadInput, "no value"),
        ([op("move", "/a")], BadInput, "no from"),
        ([op("add", "a", value=1)], BadInput, "'a'"),
        ([op("add", "/a~2", value=1)], BadInput, "a~2"),
        ([op("remove", "/x")], UnfitBody, r"Operation 0 \(remove '/x'\)"),
        ([op("remove", "")], UnfitBody, "DELETE"),
        ([op("replace", "/l/2", value=1)], UnfitBody, "element '2'"),
        ([op("add", "/l/3", value=1)], UnfitBody, "element '3'"),
        ([op("add", "/l/01", value=1)], UnfitBody, "'01'"),
        ([op("remove", "/l/-")], UnfitBody, "'-'"),
        ([op("add", "/a/b", value=1)], UnfitBody, "'b'"),
        ([op("add", "/x/b", value=1)], UnfitBody, "'x'"),
        ([op("move", "/o/p", **{"from": "/o"})], UnfitBody, "itself"),
        ([op("test", "/a", value=2)], NotMatched, "does not hold"),
        ([op("test", "/a", value=True)], NotMatched, "does not hold"),
        ([op("test", "/nowhere", value=None)], NotMatched, "nowhere"),
    ],
)
def test_errors_name_the_operation(operations: Any, kind: type[Exception], named: str) -> None:
    with pytest.raises(kind, match=named):
        apply_operations({"a": 1, "l": [1, 2], "o": {"p": {}}}, operations)


def test_copies_that_double_the_document_are_stopped() -> None:
    doubled = [op("copy", f"/a{number}", **{"from": ""}) for number in range(60)]
    with pytest.raises(UnfitBody, match="copies too much"):
        apply_operations({"a": 1}, doubled)


def test_copies_of_long_text_are_stopped_before_they_fill_the_memory() -> None:
    doubled = [op("copy", f"/a{number}", **{"from": ""}) for number in range(16)]
    with pytest.raises(UnfitBody, match="copies too much"):
        apply_operations({"a": "x" * 10_000}, doubled)


def test_elements_that_all_operations_move_are_limited() -> None:
    """An insertion at the front moves the whole array: thousands of them would hold all writes of the partition for seconds."""
    target = {"a": [0] * 1_000_000}
    moving = [op("add", "/a/0", value=1), op("remove", "/a/0")] * 49
    assert apply_operations(target, moving) == target
    for more in ([op("add", "/a/0", value=1)] * 3, [op("remove", "/a/0")] * 3, [op("move", "/a/0", **{"from": "/a/5"})] * 2):
        with pytest.raises(UnfitBody, match=r"Operation 9\d .* moves too many elements"):
            apply_operations(target, moving + more)
    assert len(apply_operations(target, [op("add", "/a/-", value=1)] * 9000)["a"]) == 1_009_000


def test_what_a_patch_leaves_is_shared_and_never_changed() -> None:
    generator = Random(3)
    places = ("", "/a", "/a/0", "/a/-", "/a/0/b", "/o", "/o/p", "/o/p/0", "/o/q", "/n")
    done = 0
    for _ in range(3000):
        target: Any = {"a": [{"b": [1]}, [2], 3], "o": {"p": [{"x": 1}], "q": {}}, "n": None}
        operations = []
        for _ in range(generator.randrange(1, 7)):
            value = generator.choice(({"b": [7]}, [8, {"p": 9}], 5))
            verb = generator.choice(("add", "replace", "remove", "move", "copy"))
            operations.append(op(verb, generator.choice(places), value=value, **{"from": generator.choice(places)}))
        before = repr((target, operations))
        try:
            result = apply_operations(target, operations)
        except UnfitBody:
            result = None
        assert repr((target, operations)) == before
        if result is not None:
            done += 1
            assert result == _stepwise(target, operations)
    assert done > 300


def _stepwise(target: Any, operations: list[dict[str, Any]]) -> Any:
    """Each operation alone, on a value that shares nothing with any other."""
    for operation in operations:
        target = deepcopy(apply_operations(deepcopy(target), deepcopy([operation])))
    return target
