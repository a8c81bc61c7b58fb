"""Types `docs/how-to/from-one-machine-to-a-cluster.md`: the same file on one machine and on a cluster, one of whose workers is killed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from s3_ground import Store
from tools.services.private import PrivateServers
from tools.services.s3 import PASSWORD, USER

from headwater.core.errors import UnknownTopic
from headwater.log.kafka.log import KafkaLog
from headwater.pipeline.offsets.control import log_topic
from headwater.testing.log_ground import fresh

PAGE = Path(__file__).parents[2] / "docs/how-to/from-one-machine-to-a-cluster.md"
COUNT = 12_000
HEADWATER = f"{Path(sys.executable).parent}/headwater"


def blocks(language: str) -> list[str]:
    fenced = [block.split("\n", 1) for block in PAGE.read_text().split("```")[1::2]]
    return [text for kind, text in fenced if kind == language]


class Typist:
    """Types the page's commands in one shell environment, with the addresses of servers that are here."""

    def __init__(self, folder: Path, schema: str, name: str, variables: dict[str, str]) -> None:
        self.folder, self._name, self._variables = folder, name, variables
        [pipeline] = blocks("python")
        (folder / "orders.py").write_text(pipeline.replace('"orders"', f'"{name}"').replace("^public", f"^{schema}"))

    def start(self, commands: str, **more: str) -> subprocess.Popen[str]:
        """Runs the commands; of assignments, those of the test hold."""
        words = commands.replace("headwater pipeline", f"{HEADWATER} pipeline").replace("verify orders", f"verify {self._name}")
        kept = [line for line in words.splitlines() if not line.startswith("export ")]
        script = "\n".join(["set -e", *kept])
        environ = os.environ | self._variables | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"} | more
        return subprocess.Popen(
            ["bash", "-c", script], cwd=self.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


def rows(store: Store, prefix: str) -> list[dict[str, Any]]:
    parts = [store.get(key) for key in store.keys(prefix) if key.endswith(".parquet")]
    return sorted((row for part in parts for row in pq.read_table(io.BytesIO(part)).to_pylist()), key=lambda row: row["id"])


@pytest.mark.spark
@pytest.mark.service("postgres", "kafka", "s3")
def test_the_same_file_on_one_machine_and_on_a_cluster_that_loses_a_worker(
    private_servers: PrivateServers, postgres: str, kafka: str, s3: str, tmp_path: Path
) -> None:
    store, name = Store(s3), fresh("orders")
    schema = name.replace("-", "_")
    with psycopg.connect(postgres, autocommit=True) as link:
        link.execute(f"create schema {schema}")
        link.execute(f"create table {schema}.orders (id int primary key, total numeric(8, 2), card text)")
        link.execute(f"insert into {schema}.orders select n, n / 100.0, 'card ' || n from generate_series(1, {COUNT}) n")
        link.execute(f"analyze {schema}.orders")
    given = {"PG_URI": postgres, "S3_URL": s3, "S3_KEY": USER, "S3_SECRET": PASSWORD}
    typist = Typist(tmp_path, schema, name, given)
    local, cluster = (commands for commands in blocks("") if "pipeline run" in commands)

    run = typist.start(local, ARCHIVE=f"s3://{store.bucket}/one/", HEADWATER_SPARK__START="never")
    servers = private_servers.up("spark")  # meanwhile
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said

    [settings] = blocks("toml")
    addresses = {"broker-1:9092,broker-2:9092,broker-3:9092": kafka, "spark://master:7077": servers.spark_master}
    for address, here in addresses.items():
        assert address in settings
        settings = settings.replace(address, here)
    (tmp_path / "headwater.toml").write_text(settings)
    small = {"HEADWATER_SPARK__CONF__spark__executor__memory": "512m", "HEADWATER_SPARK__START": "eager"}
    small["HEADWATER_SPARK__CONF__spark__executor__extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    run = typist.start(cluster, ARCHIVE=f"s3://{store.bucket}/two/", **small)
    try:
        with KafkaLog(kafka) as log:
            while run.poll() is None and not _begun(log, name):
                pass
        assert run.poll() is None, run.communicate()[0]
        servers.kill("worker-2")
        said, _ = run.communicate(timeout=240)
    finally:
        run.kill()
    assert run.returncode == 0, said
    assert servers.pid("worker-2") is None
    one, two = rows(store, "one/"), rows(store, "two/")
    assert len(one) == COUNT
    assert set(one[0]) == {"id", "total"}
    assert two == one


def _begun(log: KafkaLog, name: str) -> bool:
    """Whether the first documents are in the log."""
    try:
        return log.bounds(log_topic(name), 0).end > 1
    except UnknownTopic:
        return False
