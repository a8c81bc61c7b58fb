"""Programs that use Spark as a user's would: the page's example, silence on the terminal, Ctrl-C, sessions that are not ours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.spark.java import find_java
from headwater.spark.warm import AOT_SINCE

pytestmark = pytest.mark.spark
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-the-log-from-spark.md"
GIVE_UP = 240


def program(text: str, home: Path, **env: str) -> subprocess.Popen[str]:
    file = home / "program.py"
    file.write_text(text.replace("headwater.spark.session()", 'headwater.spark.session(archive="use")'))  # leaves nothing running
    return subprocess.Popen(
        [sys.executable, str(file)],
        cwd=home,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it, and so would this
    )


def ended(running: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = running.communicate(timeout=GIVE_UP)
    return running.returncode, out, err


def test_the_example_of_the_page_runs_and_says_nothing_else(tmp_path: Path) -> None:
    pieces = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    code, out, err = ended(program("\n".join(pieces), tmp_path))
    assert (code, err) == (0, "")
    assert "|page-0|" in out
    assert "20 records from offset 990 on" in out
    assert "2000 records in the copy" in out
    assert "8 of 8 ranges, 2,000 of 2,000 records" in out
    assert out.splitlines()[-1] == "{'records': 2000, 'bytes': 21780}"


INTERRUPTED = """
import signal, sys, time
import headwater.spark, pyarrow as pa
from pathlib import Path
from headwater.log.address import LogAddress
from headwater.spark.ranges import Range, run

def wait(log, range):
    Path("began").touch()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.01)
    Path("waited").touch()

spark = headwater.spark.session()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
try:
    run(spark, LogAddress(path="data"), [Range("visits", 0, 0, 10)], wait, schema=pa.schema([("n", pa.int64())]))
except KeyboardInterrupt:
    active, deadline = spark.sparkContext.statusTracker().getActiveJobsIds, time.monotonic() + 60
    while active() and time.monotonic() < deadline:  # Spark lists a cancelled job until its tasks have ended
        time.sleep(0.01)
    print("interrupted;", len(active()), "jobs left")
"""


def test_ctrl_c_ends_the_job_quietly(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("visits")
        log.append("visits", 0, [Record(b"k", b"v")] * 10)
    running = program(INTERRUPTED, tmp_path)
    deadline = time.monotonic() + GIVE_UP
    while not (tmp_path / "began").exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    code, out, err = ended(running)
    assert (code, err) == (0, "")
    assert out.splitlines() == ["True", "interrupted; 0 jobs left"]
    assert not (tmp_path / "waited").exists()


FOREIGN = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
visits = spark.read.format("headwater").option("data", "data").load("topic:visits")
print(visits.count(), [row.value for row in visits.where("offset = 7").collect()])
query = spark.readStream.format("headwater").option("data", "data").load("topic:visits").writeStream.format("memory").queryName("copy")
query.trigger(availableNow=True).start().awaitTermination()
print(spark.table("copy").count())
"""


def test_a_session_that_is_not_ours_knows_the_format_without_being_told(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("visits")
        log.append("visits", 0, [Record(b"k", b"v%d" % i) for i in range(10)])
    code, out, err = ended(program(FOREIGN, tmp_path, JAVA_HOME=str(find_java().home), PYSPARK_PYTHON=sys.executable))
    assert code == 0, err
    assert out.splitlines() == ["10 [b'v7']", "10"] or out.splitlines() == ["10 [bytearray(b'v7')]", "10"]


UNFIT = """
import headwater.spark
from headwater.core.errors import Unavailable
from headwater.core.settings import Passed, SparkSettings as Spark
from headwater.spark.java import cache_folder, find_java
from headwater.spark.warm import archive_for

archive = archive_for(find_java(), cache_folder())
archive.path.parent.mkdir(parents=True, exist_ok=True)
archive.path.touch()
try:
    headwater.spark.session(Spark(master="local[1]", conf=Passed({"spark.driver.extraJavaOptions": "-agentlib:nothing"})), archive="use")
except Unavailable as problem:
    print(problem)
print("kept" if archive.usable else "gone")
# Java refuses to start with this option beside an AOT cache.
spark = headwater.spark.session(Spark(master="local[1]", conf=Passed({"spark.driver.extraJavaOptions": "-Xshare:auto"})), archive="use")
print(spark.range(5).count(), "kept" if archive.usable else "gone")
"""


def test_an_archive_that_does_not_fit_costs_no_session(tmp_path: Path) -> None:
    if find_java().version < AOT_SINCE:
        pytest.skip("An older Java passes over whatever does not fit.")
    code, out, err = ended(program(UNFIT, tmp_path, HEADWATER_CACHE=str(tmp_path / "cache")))
    assert (code, err) == (0, "")
    told, kept, started = out.splitlines()
    assert told.startswith("Spark did not start: ")
    assert f"See {tmp_path / 'cache' / 'spark.log'}" in told
    assert kept == "kept", "the archive was not to blame"
    assert started == "5 gone"


@pytest.mark.soak
def test_the_first_session_has_an_archive_made_when_its_process_ends(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    text = 'import headwater.spark\nprint(headwater.spark.session(archive="auto").range(5).count())'
    code, out, err = ended(program(text, tmp_path, HEADWATER_CACHE=str(cache)))
    assert (code, out, err) == (0, "5\n", "")
    deadline = time.monotonic() + GIVE_UP
    while not [file for file in (cache / "jvm").glob("*.*") if file.suffix in (".aot", ".jsa") and not file.name.startswith("new-")]:
        assert not list((cache / "jvm").glob("*.failed"))
        assert time.monotonic() < deadline
        time.sleep(0.05)
    code, out, err = ended(program(text, tmp_path, HEADWATER_CACHE=str(cache)))
    assert (code, out, err) == (0, "5\n", "")
    assert list((cache / "jvm").glob("*.failed")) == []
