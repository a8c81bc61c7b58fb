from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.core.errors import BadConfig, Conflict, Unsupported
from headwater.core.metrics import Metrics
from headwater.core.settings import Passed, SparkSettings
from headwater.spark import session, starting, stop
from headwater.spark.java import find_java
from headwater.spark.starting import JAVA_OPTIONS, SPECULATION, conf, log_file
from headwater.spark.warm import Archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("master", "used"),
    [
        ("local[*]", "local[*,4]"),
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3, 1]", "local[3,4]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_runs_a_range_again(master: str, used: str) -> None:
    assert conf(SparkSettings(master=master), name="x")["spark.master"] == used


def test_workers_run_this_python_and_nothing_is_shown() -> None:
    chosen = conf(SparkSettings(), name="orders")
    assert chosen["spark.pyspark.python"] == sys.executable
    assert chosen["spark.app.name"] == "orders"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.driver.memory"] == "1024m"


def test_what_is_set_by_hand_weighs_more() -> None:
    chosen = conf(SparkSettings(conf=Passed({"spark.ui.enabled": "true", JAVA_OPTIONS: "-Dmine=1"})), name="x")
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen[JAVA_OPTIONS].endswith(" -Dmine=1"), "the last of two options counts"
    assert "-XX:+UseSerialGC" in chosen[JAVA_OPTIONS]


def test_no_task_runs_twice_at_the_same_time() -> None:
    assert conf(SparkSettings(), name="x")[SPECULATION] == "false"
    with pytest.raises(BadConfig, match="twice at the same time"):
        conf(SparkSettings(conf=Passed({SPECULATION: "true"})), name="x")


def test_the_drivers_address_is_left_alone_on_a_cluster() -> None:
    assert conf(SparkSettings(), name="x")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in conf(SparkSettings(master="spark://host:7077"), name="x")


def test_java_writes_to_the_log_and_uses_the_archive(tmp_path: Path) -> None:
    file = tmp_path / "a.aot"
    file.touch()
    options = conf(SparkSettings(), name="x", archive=Archive(file, aot=True), log=tmp_path / "spark.log")[JAVA_OPTIONS].split()
    assert f"-XX:AOTCache={file}" in options
    assert "-XX:TieredStopAtLevel=1" not in options
    assert "-XX:TieredStopAtLevel=1" in conf(SparkSettings(), name="x")[JAVA_OPTIONS].split()
    assert f"-Dheadwater.spark.log={tmp_path / 'spark.log'}" in options
    (named,) = [option for option in options if option.startswith("-Dlog4j2.configurationFile=file://")]
    assert Path(named.removeprefix("-Dlog4j2.configurationFile=file://")).exists()


def test_connect_is_refused_before_anything_starts() -> None:
    with pytest.raises(Unsupported, match="Spark Connect"):
        session(SparkSettings(remote="sc://host:15002"))


def test_the_log_is_kept_with_what_can_be_made_again(tmp_path: Path) -> None:
    assert log_file({"HEADWATER_CACHE": str(tmp_path)}) == tmp_path / "spark.log"


@pytest.mark.spark
class TestSession:
    def test_this_process_has_one(self, spark: SparkSession) -> None:
        assert session() is session(SparkSettings(master="local[2]")) is spark
        with pytest.raises(Conflict, match=r"session on local\[2,4\]"):
            session(SparkSettings(master="local[7]"))

    def test_a_worker_is_this_python(self, spark: SparkSession) -> None:
        def which(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import sys

            import pyarrow as pa

            yield from (pa.record_batch({"python": [sys.executable]}) for _ in batches)

        rows = spark.range(0, 1, 1, 1).mapInArrow(which, "python string").collect()
        assert [row.python for row in rows] == [sys.executable]

    def test_the_environment_is_as_it_was(self, spark: SparkSession) -> None:
        assert "SPARK_LAUNCHER_OPTS" not in os.environ
        assert "PYSPARK_PYTHON" not in os.environ

    def test_the_environment_is_as_it_was_after_two_starts_at_once(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyspark.sql import SparkSession as Spark

        both = threading.Barrier(2, timeout=0.2)

        class Builder:
            """Whoever starts waits for the other one, which must not come while the environment is changed."""

            def config(self, **chosen: object) -> Builder:
                return self

            def getOrCreate(self) -> SparkSession:  # noqa: N802
                with suppress(threading.BrokenBarrierError):
                    both.wait()
                    others.append("came")
                return spark

        others: list[str] = []
        monkeypatch.setattr(Spark, "builder", Builder())
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda _: starting._start(find_java(), {starting.PYTHON: sys.executable}, None), range(2)))
        assert others == []
        assert "SPARK_LAUNCHER_OPTS" not in os.environ

    def test_ctrl_c_is_not_taken(self, spark: SparkSession) -> None:
        found = signal.getsignal(signal.SIGINT)
        assert found in (signal.default_int_handler, signal.SIG_IGN)  # ignored: the tests run in the background of a shell

    def test_it_can_be_stopped_and_started_again(self, spark: SparkSession) -> None:
        metrics = Metrics()
        again = session(metrics=metrics.spark)
        assert metrics.spark.session_up
        stop(again, metrics=metrics.spark)
        assert b"headwater_spark_session_up 0.0" in metrics.render()
        fresh = session(SparkSettings(master="local[1]"), archive="use", name="second")
        assert fresh.range(5).count() == 5
        assert fresh.sparkContext.appName == "second"
        fresh.stop()


def test_ending_java_where_none_was_started_does_nothing() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import sys; from headwater.spark.starting import end_java; end_java(); print('pyspark' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "False\n"
