"""A Spark worker, the process that keeps a machine's executors, is killed under a job."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from cluster_work import EACH, RESULT, count, driver, fill, total, wait_for
from tools.services.private import PrivateServers

from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.ranges import Range, Runner


@pytest.mark.spark
def test_the_loss_of_a_spark_worker_is_survived(private_servers: PrivateServers, tmp_path: Path) -> None:
    servers = private_servers.up("spark")

    def waits(log: Log, slice: Range) -> pa.RecordBatch:
        (tmp_path / f"began-{slice.partition}").touch()
        wait_for(tmp_path / "go")
        return count(log, slice)

    def kill() -> None:
        wait_for(tmp_path / "began-0", tmp_path / "began-1")  # one task on each worker
        servers.kill("worker-2")
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill)
    with EmbeddedLog(tmp_path / "data") as log, driver(servers.spark_master) as spark, Runner(spark, log.address) as runner:
        log.create_topic("orders", partitions=2)
        fill(log, "orders")
        killer.start()
        tables = runner.run([Range("orders", p, 0, EACH) for p in range(2)], waits, schema=RESULT)
        killer.join()
    assert total(tables) == 2 * EACH
    assert servers.pid("worker-2") is None
