"""Options that do not exist are refused, with the one that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline.strict import _NAMESPACE, strict


@strict
def postgres(uri: str, *, tail: bool = False, replication_slot: str = "") -> tuple[str, bool, str]:
    """Reads."""
    return uri, tail, replication_slot


@strict
def names(*fields: str) -> tuple[str, ...]:
    return fields


@strict
def anything(uri: str, **options: Any) -> dict[str, Any]:
    return options


class Thing:
    @strict
    def __init__(self, *, slices: int = 0) -> None:
        self.slices = slices

    @strict
    def save(self, name: str, *, batch: int = 1) -> int:
        return batch


def test_what_exists_passes() -> None:
    assert postgres("x", tail=True) == ("x", True, "")
    assert postgres(uri="x") == ("x", False, "")
    assert names("a", "b") == ("a", "b")
    assert anything("x", whatever=1) == {"whatever": 1}
    assert Thing(slices=2).save("s", batch=5) == 5


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda: postgres("x", tial=True), "postgres has no option tial.", "Did you mean tail?"),  # type: ignore[call-arg]
        (lambda: postgres("x", replication_slots="s"), "postgres has no option replication_slots.", "Did you mean replication_slot?"),  # type: ignore[call-arg]
        (lambda: postgres("x", zzz=1), "postgres has no option zzz.", "There are uri, tail, replication_slot."),  # type: ignore[call-arg]
        (lambda: postgres("x", table="t"), "postgres has no option table.", _NAMESPACE),  # type: ignore[call-arg]
        (lambda: postgres(), "postgres(): missing a required argument: 'uri'.", "See `headwater pipeline about postgres`."),  # type: ignore[call-arg]
        (lambda: postgres("x", "y"), "postgres(): too many positional arguments.", "See `headwater pipeline about postgres`."),  # type: ignore[call-arg,arg-type]
        (lambda: names(fields=["a"]), "names has no option fields.", "It has none: what it takes is given without a name."),  # type: ignore[call-arg]
        (lambda: Thing(slice=1), "Thing has no option slice.", "Did you mean slices?"),  # type: ignore[call-arg]
        (lambda: Thing().save("s", bach=1), "save has no option bach.", "Did you mean batch?"),  # type: ignore[call-arg]
        (lambda: Thing().save("s", zzz=1), "save has no option zzz.", "There are name, batch."),  # type: ignore[call-arg]
        (lambda: Thing().save(), "save(): missing a required argument: 'name'.", "See its documentation."),  # type: ignore[call-arg]
    ],
)
def test_what_does_not_exist_is_named(call: Any, message: str, hint: str) -> None:
    with pytest.raises(BadConfig) as problem:
        call()
    assert (problem.value.message, problem.value.hint) == (message, hint)


def test_an_error_inside_is_not_taken_for_a_wrong_option() -> None:
    @strict
    def wrong(value: int) -> int:
        return value + "x"  # type: ignore[operator]

    with pytest.raises(TypeError):
        wrong(1)


def test_the_function_keeps_its_name_and_words() -> None:
    assert postgres.__name__ == "postgres"
    assert postgres.__doc__ == "Reads."
