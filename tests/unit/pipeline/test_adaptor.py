"""The base of adaptors: what it shows, resolves, and imports."""

from __future__ import annotations

from typing import ClassVar

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptor import About, Adaptor, class_at
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces


class Plain(Adaptor, frozen=True, kw_only=True):
    kind: ClassVar[str] = "plain"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    uri: str | Env
    size: int = 1


def test_values_of_the_environment_are_looked_up_where_a_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIN_HOST", "secret.example")
    given = Plain(uri="db://${PLAIN_HOST}/x")
    assert given.resolved() == Plain(uri="db://secret.example/x")
    assert Plain(uri=Env("PLAIN_HOST")).resolved() == Plain(uri="secret.example")
    assert Plain(uri="db://here").resolved() is not None
    assert str(given) == "plain(db://${PLAIN_HOST}/x)"


def test_no_password_is_shown() -> None:
    assert str(Plain(uri="db://ada:hidden@here/x?key=hidden")) == "plain(db://here/x)"


@pytest.mark.parametrize("role", ["source", "sink"])
def test_an_adaptor_without_classes_of_its_own_is_checked_by_none(role: str) -> None:
    assert Plain(uri="x").check(role, Namespaces()) == []  # type: ignore[arg-type]
    assert Plain(uri="x").checked() == Plain(uri="x")
    assert Plain(uri="x").circular("p", None, {}) == ""


def test_a_library_that_is_not_there_is_told_with_its_extra() -> None:
    with pytest.raises(BadConfig, match="plainlib"):
        class_at("headwater_no_such_module:Source", "plainlib")
