"""Values from the environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadConfig
from headwater.pipeline.env import Env, env, resolve


def test_names_are_replaced_wherever_they_stand() -> None:
    found = {"USER": "ann", "PASSWORD": "s3cret"}
    assert resolve("postgres://${USER}:${PASSWORD}@db/${USER}", found) == "postgres://ann:s3cret@db/ann"
    assert resolve("nothing here, $USER ${} ${1}", found) == "nothing here, $USER ${} ${1}"


def test_a_value_is_not_looked_into_again() -> None:
    assert resolve("${A}", {"A": "${B}", "B": "no"}) == "${B}"


def test_the_real_environment_is_asked_when_no_other_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_TEST_URI", "x")
    assert resolve("${HEADWATER_TEST_URI}") == resolve(env("HEADWATER_TEST_URI")) == "x"


def test_a_default_counts_when_the_name_is_not_set() -> None:
    assert resolve(env("A", default="d"), {}) == "d"
    assert resolve(env("A", default="d"), {"A": "set"}) == "set"
    assert resolve(env("A", default="d"), {"A": ""}) == ""
    assert resolve(env("A", default=""), {}) == ""


@pytest.mark.parametrize("text", ["${A}", "x${A}y", env("A")])
def test_a_name_that_is_not_set_is_an_error_that_names_it(text: str | Env) -> None:
    with pytest.raises(BadConfig, match="no A") as problem:
        resolve(text, {"B": "s3cret"})
    assert "export A=" in problem.value.hint
    assert "s3cret" not in str(problem.value)


def test_a_value_never_shows() -> None:
    secret = env("PG_URI", default="postgres://ann:s3cret@db")
    assert str(secret) == "${PG_URI}"
    assert "s3cret" not in repr(secret)


@given(st.text())
def test_text_without_names_stays(text: str) -> None:
    assert resolve(text.replace("${", ""), {}) == text.replace("${", "")


@pytest.mark.parametrize("name", ["", None, 5, "A=B"])
def test_what_is_no_name_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(BadConfig, match="is no name of a variable"):
        env(name)
