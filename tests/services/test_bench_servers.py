"""The benchmarks that need a server, or Spark, run and give ratios. How fast anything was is never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A process of its own: at its end it lets go of the servers that it has used, which must not be this test run's.
TINY = "import sys; from bench.__main__ import main; from bench.sizes import TINY; main(sys.argv[1:], sizes=TINY)"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kafka", marks=pytest.mark.service("kafka")),
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("pipelines", marks=pytest.mark.spark),
    ],
)
def test_it_runs_and_gives_ratios(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TINY, name, "--json", "-", "--dir", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert not found["skipped"]
    assert found["cases"]
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
