"""The runner of the suites: what needed a second try is named in its last lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tools import testrun

TESTS = """
from pathlib import Path
BEFORE = Path(__file__).with_name("before")

def test_at_the_second_try():
    before = BEFORE.exists()
    BEFORE.touch()
    assert before

def test_at_once():
    pass
"""


def test_what_passed_at_the_second_try_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testrun, "ROOT", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_slow.py").write_text(TESTS)
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they take seconds to load
    outcome = testrun.run(testrun.Suite("slow", ["test_slow.py"], again=True), environment)
    test = "test_slow.py::test_at_the_second_try"
    assert (outcome.word, outcome.again) == ("passed at the second try", (test,))
    assert testrun.summary({"slow": outcome})[1:] == [f"slow         second try: {test}"]
