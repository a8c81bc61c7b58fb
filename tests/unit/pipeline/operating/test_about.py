"""What is told of an adaptor is found by looking at it."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadConfig, UnknownAdaptor
from headwater.pipeline import adaptors
from headwater.pipeline.operating.about import about_of, class_of, describe


def test_an_adaptor_tells_what_it_can_and_which_options_it_has() -> None:
    told = describe("sqlite")
    assert (told["copies"], told["delivery"]) == (True, "exactly once")
    meaning = "As a sink, write all messages to this table, whatever their namespace."
    assert {"name": "table", "default": "None", "meaning": meaning} in told["options"]
    assert all(set(one) == {"name", "default", "meaning"} for one in told["options"])
    assert describe("http")["copies"] is False


def test_a_sample_is_said_under_the_name_that_was_asked_for() -> None:
    assert about_of("elasticsearch").sample.startswith("elasticsearch(")
    assert about_of("opensearch").sample.startswith("opensearch(")
    assert class_of("mariadb") is class_of("mysql")


def test_an_unknown_one_is_told_with_the_one_that_was_meant() -> None:
    with pytest.raises(UnknownAdaptor, match="no adaptor postgresql") as told:
        class_of("postgresql")
    assert "postgres" in told.value.hint


def test_one_that_does_not_say_what_it_makes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptors, "find", lambda name: lambda uri: None)
    with pytest.raises(BadConfig, match="does not say what it makes"):
        class_of("plugin")
