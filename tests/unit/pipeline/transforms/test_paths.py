"""Paths to fields, against a model that knows nothing of copying."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline.transforms.paths import MISSING, Path, find, only, parsed, placed, removals, shown, without

NAMES = st.sampled_from(["a", "b", "0", "1", "x.y"])
DOCUMENTS = st.dictionaries(
    NAMES,
    st.recursive(
        st.integers(0, 3) | st.none() | st.text(max_size=1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b.0", ("a", "b", "0")),
        (r"a\.b", ("a.b",)),
        (r"a\\.b", ("a\\", "b")),
        (r"\.", (".",)),
        ("$date", ("$date",)),
        ("with space.é", ("with space", "é")),
        ("a\nb", ("a\nb",)),
    ],
)
def test_text_means_a_path(text: str, path: Path) -> None:
    assert parsed(text, "omit") == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a\\", None, 5, ["a"]])
def test_what_is_no_path_is_refused(text: object) -> None:
    with pytest.raises(BadConfig, match=r"^omit: "):
        parsed(text, "omit")


@given(st.lists(st.text(min_size=1), min_size=1).map(tuple))
def test_every_name_can_be_written(path: Path) -> None:
    assert parsed(shown(path), "omit") == path


def test_removing_means_the_list_as_it_was() -> None:
    data = {"l": [0, 1, {"a": 2, "b": 3}, 4]}
    assert without(data, removals([("l", "0"), ("l", "2", "a"), ("l", "1"), ("l", "1")])) == {"l": [{"b": 3}, 4]}
    assert without(data, removals([("l", "2"), ("l", "2", "a"), ("l", "3", "a")])) == {"l": [0, 1, 4]}


@given(DOCUMENTS, PATHS)
def test_finding_is_looking_step_by_step(data: dict[str, Any], path: Path) -> None:
    value: Any = data
    for part in path:
        try:
            value = value[part] if isinstance(value, dict) else value[int(part)] if isinstance(value, list) and part.isdigit() else MISSING
        except (KeyError, IndexError):
            value = MISSING
        if value is MISSING:
            break
    assert find(data, path) is value or find(data, path) == value


def test_positions_are_counted_from_nought_and_have_one_name() -> None:
    data = {"l": [10, 11]}
    assert find(data, ("l", "1")) == 11
    for part in ("2", "-1", "01", "1.0", "a", "²", "9" * 30, ""):
        assert find(data, ("l", part)) is MISSING


GONE = object()


def inside(value: Any, at: Path = ()) -> list[Path]:
    """Every path that there is."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in pairs for path in [(*at, str(key)), *inside(one, (*at, str(key)))]]


@given(DOCUMENTS, st.data())
def test_without_removes_what_was_there_and_nothing_else(data: dict[str, Any], drawn: st.DataObject) -> None:
    there = inside(data)
    paths = drawn.draw(st.lists(st.sampled_from(there) | PATHS if there else PATHS, max_size=6))
    before = deepcopy(data)
    marked: Any = deepcopy(data)
    for path in paths:  # the model marks first and removes afterwards, so that no position moves
        parent = find(marked, path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            parent[path[-1]] = GONE
        elif isinstance(parent, list) and path[-1].isdigit() and int(path[-1]) < len(parent):
            parent[int(path[-1])] = GONE

    def swept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: swept(one) for key, one in value.items() if one is not GONE}
        return [swept(one) for one in value if one is not GONE] if isinstance(value, list) else value

    assert without(data, removals(paths)) == swept(marked)
    assert data == before


@given(DOCUMENTS, st.data())
def test_only_keeps_exactly_what_is_chosen(data: dict[str, Any], drawn: st.DataObject) -> None:
    there = inside(data)
    paths = drawn.draw(st.lists(st.sampled_from(there) | PATHS if there else PATHS, max_size=6))
    before = deepcopy(data)
    chosen = {path for path in paths if find(data, path) is not MISSING}

    def kept(value: Any, at: Path) -> Any:
        if at in chosen:
            return value
        inner = {path for path in chosen if path[: len(at)] == at}
        if isinstance(value, dict):
            return {key: kept(one, (*at, key)) for key, one in value.items() if any(path[len(at)] == key for path in inner)}
        return [kept(one, (*at, str(i))) for i, one in enumerate(value) if any(path[len(at)] == str(i) for path in inner)]

    assert only(data, paths) == kept(data, ())
    assert data == before


@given(DOCUMENTS, PATHS, st.integers(100, 103))
def test_what_is_placed_is_found(data: dict[str, Any], path: Path, value: int) -> None:
    before = deepcopy(data)
    try:
        made = placed(data, [(path, value)])
    except BadInput:
        blocked = [find(data, path[:depth]) for depth in range(1, len(path))]
        assert any(one is not MISSING and one is not None and not isinstance(one, dict) for one in blocked)
    else:
        assert find(made, path) == value
        assert {key: one for key, one in made.items() if key != path[0]} == {key: one for key, one in data.items() if key != path[0]}
    assert data == before


def test_placing_makes_objects_on_the_way_and_never_lists() -> None:
    assert placed({}, [(("a", "0", "b"), 1)]) == {"a": {"0": {"b": 1}}}
    assert placed({"a": None}, [(("a", "b"), 1)]) == {"a": {"b": 1}}
    assert placed({"a": [1]}, [(("a", "1"), 2)]) == {"a": [1, 2]}
    assert placed({"a": [1]}, [(("a", "0"), 2)]) == {"a": [2]}


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"a": 5}, "a.b", "a is a int"),
        ({"a": "x"}, "a.b.c", "a is a str"),
        ({"a": [1]}, "a.2", "a is a list that is shorter"),
        ({"a": [1]}, "a.b", "a is a list that is shorter"),
    ],
)
def test_nothing_is_placed_inside_of_a_value(data: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        placed(data, [(parsed(path, "rename"), 1)])
