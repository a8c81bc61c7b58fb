"""The reference names everything that the server and the door offer, and its examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.blocking_stub import STUB, text
from tools.reference import REFERENCE, http_page, python_page


@pytest.mark.parametrize(("page", "made"), [("http.md", http_page), ("python.md", python_page)])
def test_the_reference_says_what_the_tables_say(page: str, made: Callable[[str], str]) -> None:
    written = (REFERENCE / page).read_text("utf-8")
    assert made(written) == written, "write it anew with `python -m tools.reference`"


def test_the_types_of_the_blocking_door_are_those_of_the_door() -> None:
    assert text() == STUB.read_text("utf-8"), "write them anew with `python -m tools.blocking_stub`"


def test_the_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (REFERENCE / "python.md").read_text(), re.DOTALL)
    assert len(examples) == 5
    printed = ""
    for code in examples:
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        printed += ended.stdout
    assert "durable at [0]" in printed
    assert "Bounds(start=0, end=2)" in printed
    assert "2 b'insert b'" in printed
    assert "build page:/about edited" in printed
