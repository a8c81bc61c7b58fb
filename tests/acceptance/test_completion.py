"""What a Tab offers, through the program as a shell asks it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headwater


def offered(home: Path, *words: str) -> list[str]:
    asked = {
        "_HEADWATER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["headwater", *words]),
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    program = "import sys; sys.argv = ['headwater']; from headwater.cli import main; main()"
    ran = subprocess.run([sys.executable, "-c", program], cwd=home, env={**os.environ, **asked}, capture_output=True, text=True, timeout=99)
    return ran.stdout.split()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with headwater.open_blocking(tmp_path / "data", create=True) as hw:
        for topic in ("bank", "bonds", "orders"):
            hw.log.create_topic(topic)
    return tmp_path


def test_topics_verbs_and_adaptors(home: Path) -> None:
    assert offered(home, "log", "show", "b") == ["bank", "bonds"]
    assert offered(home, "log", "show", "--data", "nowhere", "b") == []
    assert offered(home, "pipeline", "offset", "shop", "") == ["list", "show", "mark", "delete"]
    assert offered(home, "pipeline", "about", "sq") == ["sqlite"]


def test_regions_and_their_tables(home: Path) -> None:
    with headwater.open_blocking(home / "data") as hw:
        for number in (7, 12):
            hw.wal("wal").create(number)
        hw.wal("manifest").create(7)
        hw.wal("wal")[7].write(31, [b"x"])
    assert offered(home, "wal", "tables", "wal/") == ["wal/12", "wal/7"]
    assert offered(home, "wal", "why", "m") == ["manifest/7"]
    assert offered(home, "wal", "read", "7", "") == ["31"]
    assert offered(home, "wal", "read", "x", "") == []


def test_a_tab_shows_no_error_and_makes_nothing(tmp_path: Path) -> None:
    assert offered(tmp_path, "log", "show", "") == []
    assert offered(tmp_path, "pipeline", "step", "shop", "") == []
    assert list(tmp_path.iterdir()) == []
