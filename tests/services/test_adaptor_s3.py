"""S3: the gateway, and the adaptor against it."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_ground import Store, deliver, documents, part, written
from tools.services.s3 import PASSWORD, USER

from headwater.adaptors.s3.adaptor import s3
from headwater.core.errors import BadConfig, Conflict, Damaged, Denied, Differs, Fenced, NotFound, Rejected, Unreachable
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.column_decision import decided
from headwater.pipeline.sink_adaptor import Batch, CanWrite
from headwater.pipeline.source_adaptor import CanCopy
from headwater.pipeline.source_progress import CopySize
from headwater.testing import CopyContract, SinkContract

pytestmark = pytest.mark.service("s3")


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    made = Store(request.getfixturevalue("s3"))
    yield made
    for key in made.keys(""):
        made.client.delete_object(Bucket=made.bucket, Key=key)
    made.client.close()


# -- the source ---------------------------------------------------------------------------------------------


def test_objects_of_every_format_are_read(store: Store) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"_id": [1, 2], "name": ["x", None]}), table)
    store.put("in/a.jsonl", b'{"_id":1,"n":12345678901234567890}\n{"_id":2}')
    store.put("in/deep/b.csv", b"_id,name\n1,x\n2,\n")
    store.put("in/c.parquet", table.getvalue())
    store.put("in/d.jsonl.gz", gzip.compress(b'{"_id":7}\n'))
    store.put("in/z.csv.zst", pa.compress(b"_id\n8\n", codec="zstd", asbytes=True))
    store.put("in/e.txt", b"not to be read")
    store.put("in/_hidden/f.jsonl", b"not to be read")
    store.put("other/g.jsonl", b"not to be read")
    adaptor = store.adaptor()
    plan = adaptor.plan(Namespaces(), 4)
    assert plan.repeats
    assert adaptor.same(plan, Namespaces())
    assert documents(adaptor, plan) == {
        "a": [{"_id": 1, "n": 12345678901234567890}, {"_id": 2}],
        "c": [{"_id": 1, "name": "x"}, {"_id": 2, "name": None}],
        "z": [{"_id": 8}],
        "d": [{"_id": 7}],
        "deep/b": [{"_id": 1, "name": "x"}, {"_id": 2, "name": None}],
    }
    assert list(documents(adaptor, adaptor.plan(Namespaces("^deep"), 1))) == ["deep/b"]
    assert adaptor.check("source", Namespaces("^a"))[0].startswith("1 objects, ")


def test_objects_are_measured_by_their_bytes(store: Store) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"_id": list(range(25_000))}), table, row_group_size=10_000)
    rows = b"".join(b'{"_id":%d,"x":"%s"}\n' % (n, random.Random(n).randbytes(1000).hex().encode()) for n in range(5000))
    stored = {"a.jsonl": rows, "b.jsonl.gz": gzip.compress(rows), "c.parquet": table.getvalue(), "d.csv": b"x\n" + rows}
    for name, data in stored.items():
        store.put(f"in/{name}", data)
    adaptor = store.adaptor()
    plan = adaptor.plan(Namespaces(), 4)
    assert plan.size == CopySize(total=sum(map(len, stored.values())), unit="bytes")
    assert [one.size for one in plan.slices] == [len(data) for data in stored.values()]
    for one in plan.slices:
        pieces = list(adaptor.read(one, None))
        amounts = [piece.amount or 0 for piece in pieces]
        assert len(amounts) > 2
        assert 0 < amounts[0] < amounts[1] <= amounts[-1] == one.size
        rest = [piece.amount or 0 for piece in adaptor.read(one, pieces[0].position)]
        assert amounts[0] < rest[0] <= rest[-1] == one.size  # what was read before counts


def test_one_object_by_its_key(store: Store) -> None:
    store.put("in/a.jsonl", b'{"_id":1}')
    adaptor = store.adaptor("in/a.jsonl")
    assert documents(adaptor, adaptor.plan(Namespaces(), 1)) == {"a": [{"_id": 1}]}


def test_reading_goes_on_behind_a_position_and_names_bad_lines(store: Store) -> None:
    lines = [b'{"_id":%d,"text":"%s"}' % (n, b"x" * 1000) for n in range(6000)]
    lines[5999] = b"oops"
    store.put("in/a.jsonl", b"\n".join(lines) + b"\n")
    adaptor = store.adaptor()
    (one,) = adaptor.plan(Namespaces(), 1).slices
    pieces = list(adaptor.read(one, None))
    assert len(pieces) > 2
    assert sum(len(piece.values) for piece in pieces) == 6000
    rest = list(adaptor.read(one, pieces[1].position))
    assert [text for piece in rest for text in piece.values] == [text for piece in pieces[2:] for text in piece.values]
    assert pieces[-1].bad == rest[-1].bad
    (why,) = rest[-1].bad.values()
    assert why.startswith("in/a.jsonl: Line 6000 is no JSON object")


def test_an_object_that_changes_under_the_plan_is_noticed(store: Store) -> None:
    store.put("in/a.jsonl", b'{"_id":1}\n')
    adaptor = store.adaptor()
    plan = adaptor.plan(Namespaces(), 1)
    store.put("in/a.jsonl", b'{"_id":2}\n')
    assert not adaptor.same(plan, Namespaces())
    with pytest.raises(Differs, match="was replaced"):
        list(adaptor.read(plan.slices[0], None))
    store.client.delete_object(Bucket=store.bucket, Key="in/a.jsonl")
    assert not adaptor.same(plan, Namespaces())
    with pytest.raises(Differs, match="is gone"):
        list(adaptor.read(plan.slices[0], None))
    with pytest.raises(NotFound, match="no object"):
        adaptor.plan(Namespaces(), 1)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("a.parquet", b"no table"),
        ("a.jsonl.gz", b"no gzip"),
        ("a.jsonl.gz", gzip.compress(b'{"_id":1}\n' * 1000)[:-9]),
        ("a.csv.zst", b"no zstd"),
        ("a.csv.zst", pa.compress(b"_id\n8\n", codec="zstd", asbytes=True)[:-1]),
    ],
    ids=["no table", "no gzip", "half a gzip", "no zstd", "half a zstd"],  # gzip notes the time: every process would name its own test
)
def test_an_object_that_is_not_what_its_name_says_is_damaged(store: Store, key: str, data: bytes) -> None:
    store.put(f"in/{key}", data)
    adaptor = store.adaptor()
    (one,) = adaptor.plan(Namespaces(), 1).slices
    with pytest.raises(Damaged, match=f"in/{key} is no whole") as problem:
        list(adaptor.read(one, None))
    assert "--again" in problem.value.hint


# -- the sink -----------------------------------------------------------------------------------------------


def test_a_part_is_seen_when_it_is_published_and_not_before(store: Store) -> None:
    adaptor = store.adaptor("out")
    assert adaptor.begin("p#1", "s", 1) == []
    receipt = written(adaptor, part(0, 10))
    assert store.keys("out/part") == []
    adaptor.publish(part(0, 10), receipt)
    adaptor.publish(part(0, 10), receipt)  # its answer was lost: it may be called again
    assert store.keys("out/part") == [f"out/part-{0:020d}-{10:020d}.jsonl"]
    assert store.get(store.keys("out/part")[0]).splitlines()[3] == b'{"_id":3,"n":3}'
    assert adaptor.begin("p#1", "s", 2) == [(0, 10)]
    assert [row["n"] for row in adaptor.rows("orders")] == list(range(10))


@pytest.mark.parametrize(
    ("options", "ending"), [({"format": "parquet"}, ".parquet"), ({"format": "csv", "compression": "gzip"}, ".csv.gz")]
)
def test_other_formats(store: Store, options: dict[str, Any], ending: str) -> None:
    adaptor = store.adaptor("out/", **options)
    adaptor.begin("p#1", "s", 1)
    deliver(adaptor, part(0, 5))
    deliver(adaptor, part(5, 9))
    assert [key.endswith(ending) for key in store.keys("out/part")] == [True, True]
    assert [row["n"] for row in adaptor.rows("orders")] == list(range(9))


def test_parquet_has_a_summary_with_the_newest_columns(store: Store) -> None:
    adaptor = store.adaptor("out/", format="parquet")
    adaptor.begin("p#1", "s", 1)
    rules = adaptor.column_rules()
    assert rules is not None
    for start, data in ((0, {"_id": 1, "n": 1}), (1, {"_id": 2, "n": Decimal("1.50"), "late": "x"})):
        message = Message("orders", data, offset=start)
        tables = decided([(adaptor.place("orders"), message)], rules).tables
        deliver(adaptor, part(start, start + 1, columns=tables), [message])
    assert pq.read_schema(io.BytesIO(store.get("out/_common_metadata"))).names == ["_id", "n", "late"]
    assert [row["n"] for row in adaptor.rows("orders")] == [1, Decimal("1.5")]
    assert [one.spec["key"] for one in adaptor.plan(Namespaces(), 1).slices] == store.keys("out/part")


def test_text_that_no_transform_has_touched_goes_as_it_is(store: Store) -> None:
    adaptor = store.adaptor("out/", compression="zstd")
    adaptor.begin("p#1", "s", 1)
    writer = adaptor.writer(part(0, 2))
    assert type(writer).takes_text
    writer.write(Batch(start=0, end=2, values=[b'{"a": 1.10}', b'{"b":2}']))
    adaptor.publish(part(0, 2), writer.finish())
    writer.close()
    assert [str(row) for row in adaptor.rows("x")] == ["{'a': Decimal('1.10')}", "{'b': 2}"]


def test_a_large_part_is_uploaded_in_several(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.adaptors.s3.sink.PART", 5 << 20)
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    given = [Message("orders", {"_id": n, "text": "x" * 100_000}, offset=n) for n in range(120)]
    receipt = written(adaptor, part(0, 120), given)
    assert len(receipt["uploads"][0]["tags"]) == 3
    adaptor.publish(part(0, 120), receipt)
    assert [row["_id"] for row in adaptor.rows("orders")] == list(range(120))


def test_what_a_dead_run_left_is_swept(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    receipt = written(adaptor, part(0, 10))
    assert len(store.uploads()) == 1
    shared = part(10, 20, buckets=2, bucket=0)
    deliver(adaptor, shared)  # and the run died before the other share
    store.put(f"out/part-{30:020d}-{40:020d}.1.jsonl", b"{}")  # the second object of a part whose first never came
    assert adaptor.begin("p#1", "s", 2) == []
    assert store.uploads() == []
    assert store.keys("out/part") == []
    with pytest.raises(Fenced):
        adaptor.publish(part(0, 10), receipt)
    with pytest.raises(Unreachable, match="aborted"):  # though it knew the epoch, the upload is gone
        adaptor.publish(part(0, 10, epoch=2), receipt)
    assert store.keys("out/part") == []


def test_shares_count_together_even_when_one_is_empty(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    deliver(adaptor, part(0, 10, buckets=2, bucket=0))
    deliver(adaptor, part(0, 10, buckets=2, bucket=1), [])
    assert store.keys("out/part") == [f"out/part-{0:020d}-{10:020d}-0of2.jsonl"]
    assert adaptor.begin("p#1", "s", 2) == [(0, 10)]


def test_a_prefix_belongs_to_one_sink_and_its_newest_run(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 5)
    deliver(adaptor, part(0, 3, epoch=5))
    with pytest.raises(Fenced):
        adaptor.begin("p#1", "s", 4)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        adaptor.begin("q#1", "s", 6)
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#1"):
        adaptor.begin("p#2", "s", 1)  # its log was deleted: the offsets mean other messages now
    assert adaptor.claim(SinkClaim(pipeline="p#2", sink="s", epoch=1), adaptor.owner("p#2", "s"))
    assert adaptor.begin("p#2", "s", 1) == []
    assert store.keys("out/earlier") == [f"out/earlier-1-part-{0:020d}-{3:020d}.jsonl"]
    with pytest.raises(Fenced):
        deliver(adaptor, part(3, 6, epoch=5))


def test_a_position_that_an_operator_moves_back(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    for start in (0, 10, 20):
        deliver(adaptor, part(start, start + 10))
    assert adaptor.part_around("p#1", "s", 24) == (20, 30)
    assert adaptor.part_around("p#1", "s", 19) is None
    adaptor.forget("p#1", "s", 19, 1)
    assert adaptor.begin("p#1", "s", 2) == [(0, 10), (10, 20)]
    assert len(store.keys("out/part")) == 2
    assert store.keys("out/_headwater/replaced/") == [f"out/_headwater/replaced/part-{20:020d}-{30:020d}.jsonl"]


def test_shares_without_messages_are_forgotten_too_and_what_comes_in_place_of_a_part_counts(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    deliver(adaptor, part(0, 10, buckets=2, bucket=0))
    deliver(adaptor, part(0, 10, buckets=2, bucket=1), [])
    assert adaptor.part_around("p#1", "s", 4) == (0, 10)
    adaptor.forget("p#1", "s", -1, 1)
    deliver(adaptor, part(0, 10, buckets=2, bucket=0))  # and the run dies before the other share, which may have messages now
    assert adaptor.begin("p#1", "s", 2) == []
    for bucket in (0, 1):
        deliver(adaptor, part(0, 10, buckets=2, bucket=bucket, epoch=2))
    assert adaptor.begin("p#1", "s", 3) == [(0, 10)]


def test_a_replay_is_an_object_of_its_own(store: Store) -> None:
    adaptor = store.adaptor("out/")
    adaptor.begin("p#1", "s", 1)
    deliver(adaptor, part(0, 3))
    deliver(adaptor, part(1, 2, again=True, attempt="x9"))
    assert store.keys("out/replay") == [f"out/replay-{1:020d}-{2:020d}-x9.jsonl"]
    assert adaptor.begin("p#1", "s", 2) == [(0, 3)]


def test_deletes_need_an_envelope(store: Store) -> None:
    gone = [Message("orders", {"_id": 1}, Op.DELETE, offset=0)]
    with pytest.raises(Rejected) as refused:
        written(store.adaptor("out/"), part(0, 1), gone)
    assert refused.value.offset == 0
    adaptor = store.adaptor("out/", envelope=True)
    adaptor.begin("p#1", "s", 1)
    deliver(adaptor, part(0, 1), gone)
    assert msgspec.json.decode(store.get(store.keys("out/part")[0]))["op"] == "delete"


# -- the connection -----------------------------------------------------------------------------------------


def test_who_may_not_come_in_is_told_so_without_the_key(store: Store) -> None:
    with pytest.raises(Denied) as problem:
        store.adaptor(secret_key="hidden-key").check("sink", Namespaces())
    assert "hidden" not in str(problem.value)
    with pytest.raises(NotFound, match="NoSuchBucket"):
        s3("s3://no-such-bucket/x/", endpoint_url=store.endpoint, access_key=USER, secret_key=PASSWORD).check("sink", Namespaces())
    assert store.adaptor("out/").check("sink", Namespaces()) == [f"s3://{store.bucket}/out/ can be written"]
    assert store.keys("") == []


def test_a_store_that_is_not_there_is_no_fault_of_a_message(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(Unreachable, match="cannot be reached: EndpointConnectionError"):
        written(store.adaptor("out/", endpoint_url="http://127.0.0.1:9"), part(0, 1))


def test_options_that_cannot_be() -> None:
    for wrong in ({"format": "xml"}, {"compression": "lz9"}, {"access_key": "x"}, {"envelope": True, "format": "csv"}, {"endpoint": "x"}):
        with pytest.raises(BadConfig):
            s3("s3://b/", **wrong)
    for uri in ("s3:///", "gs://shop/orders/"):
        with pytest.raises(BadConfig, match="names no bucket"):
            s3(uri)
    with pytest.raises(BadConfig, match="no bucket has such a name"):
        s3("s3://not a name/", endpoint_url="http://127.0.0.1:9", access_key="a", secret_key="b").check("sink", Namespaces())
    with pytest.raises(BadConfig, match="no address"):
        s3("s3://b/", endpoint_url="nonsense").check("sink", Namespaces())


@pytest.mark.parametrize(("options", "read"), [({}, "[Decimal('1.25'), Decimal('1.20'), 7]"), ({"decimals": "float"}, "[1.25, 1.2, 7]")])
@pytest.mark.parametrize(("key", "data"), [("a.jsonl", b'{"a":1.25,"b":1.20,"c":7}\n'), ("a.csv", b"a,b,c\n1.25,1.20,7\n")])
def test_numbers_with_a_point_are_of_one_type(store: Store, key: str, data: bytes, options: dict[str, Any], read: str) -> None:
    store.put(f"in/{key}", data)
    source = store.adaptor(**options)
    [[found]] = documents(source, source.plan(Namespaces(), 1)).values()
    assert repr([found["a"], found["b"], found["c"]]) == read


# -- what every adaptor promises ----------------------------------------------------------------------------


class TestObjects(CopyContract):
    @pytest.fixture
    def source(self, store: Store) -> CanCopy:
        lines = [b'{"_id":%d,"big":%d}\n' % (n, 2**53 + n) for n in range(50)]
        store.put("in/a.jsonl", b"".join(lines[:20]))
        store.put("in/b.jsonl.gz", gzip.compress(b"".join(lines[20:30])))
        table = io.BytesIO()
        pq.write_table(pa.table({"_id": range(30, 50)}), table, row_group_size=7)
        store.put("in/deeper/c.parquet", table.getvalue())
        return store.adaptor()


class TestParts(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, store: Store) -> CanWrite:
        return store.adaptor("out/")


class TestTables(SinkContract):
    deletes = upserts = False

    @pytest.fixture
    def sink(self, store: Store) -> CanWrite:
        return store.adaptor("out/", format="parquet")
