"""The benchmarks that need a server, or Spark, run and give ratios. How fast anything was is never asserted."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from bench.__main__ import main
from bench.sizes import TINY


@pytest.mark.parametrize(
    "name", [pytest.param("kafka", marks=pytest.mark.service("kafka")), pytest.param("spark", marks=pytest.mark.spark)]
)
def test_it_runs_and_gives_ratios(name: str, tmp_path: Path) -> None:
    out = io.StringIO()
    main([name, "--json", "-", "--dir", str(tmp_path)], sizes=TINY, out=out, say=io.StringIO())
    found = json.loads(out.getvalue())
    assert not found["skipped"]
    assert found["cases"]
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
