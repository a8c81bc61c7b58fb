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


@pytest.mark.parametrize("again", [True, False])
def test_what_passed_at_the_second_try_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    monkeypatch.setattr(testrun, "ROOT", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_slow.py").write_text(TESTS)
    outcome = testrun.run(testrun.Suite("slow", ["test_slow.py", "-p", "no:xdist"], again=again), dict(os.environ))
    named = ["test_slow.py::test_at_the_second_try"] if again else []
    assert outcome.word == ("passed at the second try" if again else "FAILED (1)")
    assert list(outcome.again) == named
    assert testrun.summary({"slow": outcome})[1:] == [f"slow         second try: {test}" for test in named]
