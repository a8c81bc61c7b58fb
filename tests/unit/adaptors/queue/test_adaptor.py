from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import BadConfig
from headwater.pipeline.adaptors import queue


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "no/name"}, "cannot name a queue"),
        ({"queue": ""}, "cannot name a queue"),
        ({"queue": "q", "key": ""}, "needs a key"),
        ({"queue": "q", "lane": "{"}, "braces"),
        ({"queue": "q", "priority": 256}, "priority cannot be 256"),
        ({"queue": "q", "batch": 0}, "batch cannot be 0"),
        ({"queue": "q", "delay": "-1s"}, "delay cannot be"),
        ({"queue": "q", "lease": "1ms"}, "lease cannot be"),
        ({"queue": "q", "address": "kafka://localhost:9092"}, "reached through its server"),
        ({"queue": "q", "address": "http://me:secret@localhost"}, "holds a user or a password"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfig, match=said) as error:
        queue(**options)
    assert "secret" not in str(error.value)


def test_a_priority_that_is_none_is_told_with_what_to_give() -> None:
    with pytest.raises(BadConfig) as error:
        queue("q", priority="high")
    assert error.value.hint == "Give a whole number from 0 to 255."


def test_a_directory_is_seen_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = queue("q", address="there")
    monkeypatch.chdir("/")
    assert made.located().where == str(tmp_path / "there")
    assert str(made) == "queue(q, there)"
