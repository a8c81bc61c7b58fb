"""A real Spark cluster. The driver runs in a process of its own: a session in this one would meet those of other tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tools.services import up
from tools.services.private import PrivateServers

from headwater.spark.java import find_java

# Each task waits until a task on the other worker runs too, so that a job on one worker cannot pass for a job on two.
DRIVER = """
import json, os, sys
import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

def work(batches):
    BarrierTaskContext.get().barrier()
    for batch in batches:
        yield pa.record_batch({"home": [os.environ["SPARK_LOCAL_DIRS"]], "python": [sys.executable], "sum": [sum(batch["id"].to_pylist())]})

spark = (
    SparkSession.builder.master(sys.argv[1])
    .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    .config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")  # 15 s by default, if a worker was a moment late
    .config("spark.driver.extraJavaOptions", QUICK).config("spark.executor.extraJavaOptions", QUICK)
    .config("spark.executor.memory", "512m").config("spark.driver.memory", "512m").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
rows = spark.range(0, 1000, 1, 2).mapInArrow(work, "home string, python string, sum long", barrier=True).collect()
print(json.dumps([row.asDict() for row in rows]))
spark.stop()
"""


def run_job(master: str) -> list[dict[str, object]]:
    env = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", DRIVER, master], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(rows: list[dict[str, object]]) -> None:
    assert sum(int(str(row["sum"])) for row in rows) == sum(range(1000))
    assert {row["python"] for row in rows} == {sys.executable}
    assert len({row["home"] for row in rows}) == 2, "both tasks ran on one worker"


def test_a_job_runs_on_two_workers(spark_master: str) -> None:
    check(run_job(spark_master))


def test_a_second_up_finds_it(spark_master: str) -> None:
    running = up("spark", kept=False)
    assert running.found == {"spark"}
    assert running.spark_master == spark_master


@pytest.mark.soak  # the tests of what uses it kill one, too
def test_a_worker_that_was_killed_comes_back(private_servers: PrivateServers) -> None:
    running = private_servers.up("spark")
    running.kill("worker-2")
    assert running.pid("worker-2") is None
    assert running.pid("worker-1") is not None
    running.restart("worker-2")
    check(run_job(running.spark_master))
