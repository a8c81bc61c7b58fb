"""The benchmarks that need a server, Spark or a peer run and give ratios. How fast anything was is never asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A process of its own: at its end it lets go of the servers that it has used, which must not be this test run's.
TINY = "import sys; from bench.__main__ import main; from bench.sizes import TINY; main(sys.argv[1:], sizes=TINY)"
# What ours is compared with comes from the network, too: dlt, RocksDB, procrastinate, awa and eventsourcing from PyPI, the driver of
# PostgreSQL from the public Java packages, beanstalkd from Debian's.
PEERS = ("dlt", "PostgreSQL → parquet", "RocksDB", "procrastinate", "awa", "beanstalkd", "eventsourcing", "Kinto")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kafka", marks=[pytest.mark.service("kafka"), pytest.mark.soak]),
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak]),
        pytest.param("wal", marks=[pytest.mark.soak]),
        pytest.param("queue", marks=[pytest.mark.service("postgres"), pytest.mark.soak]),
        pytest.param("journal", marks=[pytest.mark.spark, pytest.mark.service("cassandra"), pytest.mark.soak]),
        pytest.param("documents", marks=[pytest.mark.spark, pytest.mark.service("postgres"), pytest.mark.soak]),
        pytest.param("sql", marks=[pytest.mark.spark, pytest.mark.soak]),
        pytest.param("pipelines", marks=[pytest.mark.spark, pytest.mark.service("postgres"), pytest.mark.soak]),
    ],
)
def test_it_runs_and_gives_ratios(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TINY, name, "--json", "-", "--dir", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    for skipped in found["skipped"]:
        assert not os.environ.get("CI"), skipped
        assert skipped["why"]
        assert any(peer in skipped["name"] for peer in PEERS), "only what the network lacks may be left out"
    assert found["cases"]
    assert all(case["ratio"]["low"] > 0 for case in found["cases"])
