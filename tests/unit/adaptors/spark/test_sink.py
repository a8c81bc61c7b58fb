"""The spark adaptor in a real session: ORC files, and JDBC through the database that comes with Spark."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from quick_spark import quick

from headwater.adaptors.spark.adaptor import SparkAdaptor, spark
from headwater.adaptors.spark.connection import staging
from headwater.adaptors.spark.store import HadoopStore
from headwater.core.errors import BadConfig, Conflict, Fenced, NotFound, Rejected, Unavailable, Unreachable
from headwater.core.files import Files
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.env import Env
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part
from headwater.pipeline.source_adaptor import CopyPlan
from headwater.spark import session
from headwater.testing import SinkContract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    started = session(quick(), archive="use")
    jvm: Any = started.sparkContext._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path_factory.mktemp("derby") / "derby.log"))
    yield started
    started.stop()


def part(start: int = 0, end: int = 5, **changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=start, end=end, epoch=1, attempt="a"), **changes)


def messages(start: int, end: int) -> list[Message]:
    return [Message("orders", {"_id": n, "name": f"n{n}"}, offset=n) for n in range(start, end)]


def written(adaptor: SparkAdaptor, where: Part, given: list[Message] | None = None) -> dict[str, Any]:
    """What a task does, up to the receipt."""
    writer = adaptor.writer(where)
    try:
        writer.write(Batch(start=where.start, end=where.end, messages=messages(where.start, where.end) if given is None else given))
        return writer.finish()
    finally:
        writer.close()


def deliver(adaptor: SparkAdaptor, where: Part, given: list[Message] | None = None) -> None:
    adaptor.publish(where, written(adaptor, where, given))


def documents(adaptor: SparkAdaptor, plan: CopyPlan) -> list[dict[str, Any]]:
    return [values.decode(text) for one in plan.slices for piece in adaptor.read(one, None) for text in piece.values]


def ids(adaptor: SparkAdaptor) -> list[int]:
    return sorted(row["_id"] for row in adaptor.rows("orders"))


def folders(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if not one.name.startswith("."))


def ranges(path: Path) -> list[str]:
    return [name for name in folders(path) if name != "_headwater"]


def test_orc_is_read_with_its_types(running: SparkSession, tmp_path: Path) -> None:
    rows = [(1, Decimal("1.10"), datetime.datetime(2020, 1, 2, 3, 4, 5), [1, 2]), (2, None, None, None)]
    running.createDataFrame(rows, "id int, price decimal(10,2), at timestamp_ntz, tags array<int>").coalesce(1).write.orc(
        f"{tmp_path}/orders"
    )
    adaptor = spark("orc", path=f"{tmp_path}/orders", staging=str(tmp_path / "staging"), id="id")
    assert adaptor.check("source", Namespaces()) == ["orders: id, price, at, tags"]
    plan = adaptor.plan(Namespaces("^orders$"), 2)
    assert plan.ids == {"orders": ("id",)}
    assert {one.namespace for one in plan.slices} == {"orders"}
    assert documents(adaptor, plan) == [
        {"id": 1, "price": Decimal("1.10"), "at": {"$date": "2020-01-02T03:04:05.000Z"}, "tags": [1, 2]},
        {"id": 2, "price": None, "at": None, "tags": None},
    ]


def test_a_copy_goes_on_with_the_rows_that_were_staged(running: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/orders"
    running.range(30_000).write.orc(path)
    adaptor = spark("orc", path=path, staging=str(tmp_path / "staging"))
    plan = adaptor.plan(Namespaces(), 2)
    running.range(5).write.mode("overwrite").orc(path)  # somebody else writes there meanwhile
    assert adaptor.same(plan, Namespaces())
    found = sorted(one["id"] for one in documents(adaptor, plan))
    assert found == list(range(30_000))
    first = next(iter(adaptor.read(plan.slices[0], None)))
    rest = [text for piece in adaptor.read(plan.slices[0], first.position) for text in piece.values]
    assert [*first.values, *rest] == [text for piece in adaptor.read(plan.slices[0], None) for text in piece.values]
    anew = adaptor.plan(Namespaces(), 2)
    assert not adaptor.same(plan, Namespaces())  # the earlier copy's folder is gone
    assert len(documents(adaptor, anew)) == 5
    assert len(list(staging(adaptor).glob("copy-*"))) == 1


def test_a_pipeline_is_tried_without_a_trace_and_without_harm_to_a_run(running: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/orders"
    running.range(3).coalesce(1).write.orc(path)
    adaptor = spark("orc", path=path, staging=str(tmp_path / "staging"), id="id")
    plan = adaptor.plan(Namespaces(), 2)
    pipeline = Pipeline("p")
    pipeline.source("in", adaptor).save("out", spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging")))
    tried = preflight(pipeline)
    assert [one["ok"] for one in tried["checks"]] == [True, True]
    assert tried["message"] == {"namespace": "orders", "data": {"id": 0}}
    assert adaptor.same(plan, Namespaces())  # what a run reads is still there
    assert len(list(staging(adaptor).iterdir())) == 1
    assert not (tmp_path / "out").exists()


def test_ranges_are_folders_and_writing_one_twice_leaves_it_once(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    assert adaptor.begin("p", "s", 1) == []
    deliver(adaptor, part(0, 5))
    deliver(adaptor, part(5, 9))
    deliver(adaptor, part(5, 9, attempt="b"))  # its acknowledgement was lost
    assert ranges(tmp_path / "out") == [f"range-{0:020d}-{5:020d}", f"range-{5:020d}-{9:020d}"]
    assert ids(adaptor) == list(range(9))
    assert adaptor.begin("p", "s", 2) == [(0, 5), (5, 9)]
    assert running.read.orc(f"{tmp_path}/out/range-*").count() == 9
    assert [(one.name, list(one.iterdir())) for one in staging(adaptor, "p", "s").glob("run-*")] == [("run-2", [])]  # for its tasks


def test_what_is_published_is_on_the_disk_first(running: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def noting(files: Files, fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))

    adaptor = spark("orc", path=str(tmp_path / "out"))
    adaptor.begin("p", "s", 1)
    receipt = written(adaptor, part())
    monkeypatch.setattr(Files, "sync", noting)
    adaptor.publish(part(), receipt)
    assert any(path.endswith(".orc") for path in synced)
    assert synced[-1] == str(tmp_path / "out")  # the new name


def test_a_run_that_is_replaced_while_it_waits_for_the_lock_saves_nothing(running: SparkSession, tmp_path: Path) -> None:
    """Between its check and its save, no newer run begins: both are done under the lock of the path."""
    adaptor = spark("orc", path=str(tmp_path / "out"))
    adaptor.begin("p", "s", 1)
    receipt = written(adaptor, part())
    with ThreadPoolExecutor(2) as others:
        with HadoopStore(str(tmp_path / "out")).locked():
            older = others.submit(adaptor.publish, part(), receipt)
            newer = others.submit(adaptor.begin, "p", "s", 2)
            assert not wait([older, newer], timeout=0.05).done
    assert newer.result() in ([], [(0, 5)])
    if newer.result():
        older.result()  # it came first, and the newer run counts what it saved
    else:
        with pytest.raises(Fenced):
            older.result()
        assert ranges(tmp_path / "out") == []


def test_shares_count_together_even_when_one_is_empty(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    deliver(adaptor, part(0, 5, buckets=2, bucket=0))
    deliver(adaptor, part(0, 5, buckets=2, bucket=1), [])
    assert adaptor.begin("p", "s", 2) == [(0, 5)]
    assert ids(adaptor) == list(range(5))


def test_what_a_dead_run_left_is_swept(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    written(adaptor, part(0, 5))  # staged, never published
    deliver(adaptor, part(5, 9, buckets=2, bucket=0))  # one share of two
    (tmp_path / "out" / f"range-{20:020d}-{30:020d}").mkdir()  # a folder that Spark had not finished
    assert adaptor.begin("p", "s", 2) == []
    assert ranges(tmp_path / "out") == []
    assert [(one.name, list(one.iterdir())) for one in staging(adaptor, "p", "s").glob("run-*")] == [("run-2", [])]  # for its tasks


def test_a_task_that_does_not_see_the_staging_folder_of_its_run_knows_it(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    assert adaptor.seen(part(0, 5))
    elsewhere = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "of-the-worker"))
    assert not elsewhere.seen(part(0, 5))
    assert not (tmp_path / "of-the-worker").exists()
    assert adaptor.probed(part(0, 5), name := adaptor.probe(part(0, 5, attempt="a")))
    assert not adaptor.probed(part(0, 5), name)
    shutil.copytree(tmp_path / "staging", tmp_path / "of-the-worker")
    assert not adaptor.probed(part(0, 5), elsewhere.probe(part(0, 5, attempt="b")))


def test_what_was_staged_and_is_gone_does_not_count_as_published(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    receipt = written(adaptor, part(0, 5))
    adaptor.publish(part(0, 5), receipt)
    adaptor.publish(part(0, 5), receipt)  # its acknowledgement was lost: it may be called again
    receipt = written(adaptor, part(5, 9))
    Path(receipt["files"][0]).unlink()
    with pytest.raises(Unavailable, match="was removed before its messages were published"):
        adaptor.publish(part(5, 9), receipt)
    assert ids(adaptor) == list(range(5))


def test_a_folder_belongs_to_one_sink_of_one_log_and_its_newest_run(running: SparkSession, tmp_path: Path) -> None:
    """Another's ranges must not pass for this one's: its messages would count as taken, and never be written."""
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    assert adaptor.begin("p#1", "s", 5) == []
    deliver(adaptor, part(0, 5, pipeline="p#1", epoch=5))
    with pytest.raises(Fenced):
        adaptor.begin("p#1", "s", 4)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        adaptor.begin("q#1", "s", 6)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        adaptor.begin("p#2", "s", 1)  # its log was deleted: the offsets mean other messages now
    assert adaptor.held("p#1", "s") == [(0, 5)]
    assert adaptor.claim(SinkClaim(pipeline="p#2", sink="s", epoch=1), adaptor.owner("p#2", "s"))
    assert adaptor.begin("p#2", "s", 1) == []
    assert folders(tmp_path / "out") == ["_headwater", f"earlier-1-range-{0:020d}-{5:020d}"]
    with pytest.raises(Fenced):
        deliver(adaptor, part(5, 9, pipeline="p#1", epoch=5))
    assert ids(adaptor) == []


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(("torn", "left"), [("owner.json", ""), ("owner.json", '{"pipel'), ("owner.new", "")])
def test_a_run_that_dies_while_it_takes_over_hides_nothing(
    running: SparkSession, tmp_path: Path, torn: str, left: str, checked: bool
) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    assert adaptor.begin("p", "s", 1) == []
    deliver(adaptor, part())
    (tmp_path / "out/_headwater" / torn).write_text(left)
    if not checked:
        (tmp_path / f"out/_headwater/.{torn}.crc").unlink()
    assert adaptor.begin("p", "s", 2) == [(0, 5)]
    assert ids(adaptor) == list(range(5))


def test_tables_of_other_types_are_folders_of_their_own(running: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.file.parquet_writer._ROWS", 1)  # each batch a table of its own
    adaptor = spark("json", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    writer = adaptor.writer(part(0, 2))
    writer.write(Batch(start=0, end=1, messages=[Message("x", {"_id": 1, "v": 1}, offset=0)]))
    writer.write(Batch(start=1, end=2, messages=[Message("x", {"_id": 2, "v": Decimal("1.50")}, offset=1)]))
    adaptor.publish(part(0, 2), writer.finish())
    writer.close()
    assert ranges(tmp_path / "out") == [f"range-{0:020d}-{2:020d}", f"range-{0:020d}-{2:020d}.1"]
    assert ids(adaptor) == [1, 2]
    assert adaptor.begin("p", "s", 2) == [(0, 2)]
    assert ids(adaptor) == [1, 2]


def test_a_position_that_an_operator_moves_back(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    adaptor.begin("p", "s", 1)
    for start in (0, 5, 10):
        deliver(adaptor, part(start, start + 5))
    assert adaptor.part_around("p", "s", 7) == (5, 10)
    adaptor.forget("p", "s", 4, 1)
    assert adaptor.begin("p", "s", 2) == [(0, 5)]
    assert ids(adaptor) == list(range(5))


def test_the_namespace_is_the_last_name_that_is_no_pattern() -> None:
    assert spark("orc", path="archive/orders/range-*").name == "orders"
    assert spark("orc", path="archive/orders/").name == "orders"
    assert spark("jdbc", options={"dbtable": "t"}).name == "t"
    assert spark("rate").name == "rate"


def test_deletes_are_refused(running: SparkSession, tmp_path: Path) -> None:
    adaptor = spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
    with pytest.raises(Rejected) as refused:
        written(adaptor, part(0, 1), [Message("x", {"_id": 1}, Op.DELETE, offset=0)])
    assert refused.value.offset == 0


def test_what_a_path_has_from_the_environment_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cret")
    told = spark("orc", path="s3a://who:${KEY}@bucket/x").redacted("Path does not exist: s3a://who:s3cret@bucket/x/part of s3cret")
    assert "s3cret" not in told


def test_jdbc_both_ways(running: SparkSession, tmp_path: Path) -> None:
    options = {
        "url": f"jdbc:derby:{tmp_path}/db;create=true",
        "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "dbtable": "orders",
    }
    adaptor = spark("jdbc", options=options, staging=str(tmp_path / "staging"))
    assert adaptor.begin("p", "s", 1) is None
    deliver(adaptor, part(0, 3))
    deliver(adaptor, part(3, 4))
    assert ids(adaptor) == [0, 1, 2, 3]
    plan = adaptor.plan(Namespaces("orders"), 2)
    assert sorted(one["name"] for one in documents(adaptor, plan)) == ["n0", "n1", "n2", "n3"]


def test_errors_say_what_is_wrong_and_no_secret(running: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadConfig, match="PATH_NOT_FOUND"):
        spark("orc", path=f"{tmp_path}/nowhere").plan(Namespaces(), 1)
    with pytest.raises(BadConfig, match="no-such-format"):
        spark("no-such-format", path=str(tmp_path)).check("source", Namespaces())
    monkeypatch.setenv("DB", "jdbc:derby:hidden;password=hidden")
    wrong = spark("jdbc", options={"url": "${DB}", "dbtable": "t", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"})
    with pytest.raises(Exception) as problem:
        wrong.check("source", Namespaces())
    assert "hidden" not in str(problem.value)
    nobody: dict[str, str | Env] = {"url": "jdbc:nobody:x", "dbtable": "t"}
    with pytest.raises(BadConfig, match="No suitable driver") as driver:  # which would be waited for in vain
        spark("jdbc", options=nobody).check("source", Namespaces())
    assert "spark.jars.packages" in driver.value.hint
    with pytest.raises(BadConfig, match="nowhere"):
        spark("orc", path="nowhere://x/y").check("sink", Namespaces())
    absent = {"url": f"jdbc:derby:{tmp_path}/absent", "dbtable": "t", "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    with pytest.raises(Unreachable, match="absent' not found"):  # a database that is down comes back
        spark("jdbc", options=absent).check("source", Namespaces())
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match="use the folder"):
        spark("orc", path=f"{tmp_path}/file/below").begin("p", "s", 1)
    with pytest.raises(NotFound, match="only namespace here is orders"):
        spark("orc", path="x/orders").plan(Namespaces("^other$"), 1)
    for bad in ({"options": {"a": 1}}, {"mode": "append"}):
        with pytest.raises(BadConfig):
            spark("orc", **bad)


class TestFolders(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, running: SparkSession, tmp_path: Path) -> CanWrite:
        return spark("orc", path=f"{tmp_path}/out", staging=str(tmp_path / "staging"))
