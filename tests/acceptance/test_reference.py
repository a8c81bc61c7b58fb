"""The examples of the reference run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tools.reference import REFERENCE


def test_the_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (REFERENCE / "python.md").read_text(), re.DOTALL)
    assert len(examples) == 7
    printed = ""
    for code in examples:
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=240)
        assert ended.returncode == 0, ended.stderr
        printed += ended.stdout
    assert "durable at [0]" in printed
    assert "Bounds(start=0, end=2)" in printed
    assert "2 b'insert b'" in printed
    assert "build page:/about edited" in printed
    assert "1 2\n2 {'type': 'deposit', 'eur': 50}" in printed
    assert "{'id': 'hat', 'price': 10} 2" in printed
