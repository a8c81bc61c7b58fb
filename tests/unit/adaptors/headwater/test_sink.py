"""Topics of a headwater log as a sink; circles, addresses and options."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from headwater_ground import ALL, changes, part, run, write

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor, headwater
from headwater.adaptors.headwater.address import HeadwaterAddress, resolved_address
from headwater.core.errors import BadConfig, BadInput, NotFound, ReadOnly, Rejected, Unavailable, UnknownTopic, Unreachable
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.partitioner import partition_for
from headwater.log.record import Record, TopicSettings
from headwater.pipeline import values
from headwater.pipeline.adaptors import file
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.preflight import preflight
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.sink_adaptor import Batch
from headwater.pipeline.transforms import omit

_NOBODY = 65_534

# -- the sink -------------------------------------------------------------------------------------------------


def test_records_tell_where_they_come_from_and_deletes_have_no_value(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    write(
        topic(),
        Message("shop.orders", {"_id": "a", "n": 2**64}, offset=7, timestamp=5_000),
        Message("shop.orders", {"_id": 5}, Op.UPDATE, offset=8),
        Message("shop.orders", {"_id": 5, "n": 1}, Op.DELETE, offset=9),
        Message("shop.orders", {"n": 1}, offset=10),
    )
    got = log.read("orders", 0, 0)
    assert [(one.key, one.value, one.op) for one in got] == [
        (b"a", b'{"_id":"a","n":18446744073709551616}', 0),
        (b"5", b'{"_id":5}', 1),
        (b"5", None, 2),
        (None, b'{"n":1}', 0),
    ]
    assert got[0].timestamp == 5_000
    assert dict(got[2].headers) == {"pipeline": b"p#1/s", "namespace": b"shop.orders", "offset": b"9", "data": b'{"_id":5}'}


def test_what_was_written_is_read_as_it_was(topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor, fields = topic(id=("a", "b")), ("a", "b")
    given = [
        Message("orders", {"a": 1, "b": "2", "x": [1]}, offset=0, id_fields=fields),
        Message("orders", {"a": 1, "b": "2", "x": [2]}, Op.UPDATE, offset=1, id_fields=fields),
        Message("orders", {"a": 1, "b": "2"}, Op.DELETE, offset=2, id_fields=fields),
    ]
    write(adaptor, *given)
    assert [(one.op, one.data, one.id) for one in changes(adaptor)[0]] == [(one.op, one.data, one.id) for one in given]


def test_changes_of_one_document_stay_in_one_partition_and_in_order(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    write(topic(partitions=4), *[Message("x", {"_id": n % 10, "n": n}, offset=n) for n in range(200)])
    slices = [[values.decode(one.value or b"") for one in log.read("orders", number, 0)] for number in range(4)]
    assert sum(map(len, slices)) == 200
    for number in range(10):
        mine = slices[partition_for(str(number).encode(), 4)]
        assert [one["n"] for one in mine if one["_id"] == number] == list(range(number, 200, 10))


def test_a_topic_is_made_where_there_is_none_and_left_as_it_is_where_there_is(log: EmbeddedLog, tmp_path: Path) -> None:
    adaptor = headwater(str(tmp_path / "data"), topic="shop-{namespace}", partitions=3)
    log.create_topic("shop-b", partitions=2)
    write(adaptor, Message("a", {"_id": 1}, offset=0), Message("b", {"_id": 1}, offset=1))
    assert [(one.name, one.partitions) for one in log.topics()] == [("shop-a", 3), ("shop-b", 2)]
    assert adaptor.place("a") == "shop-a"
    assert list(adaptor.rows("b")) == [{"_id": 1}]
    assert list(adaptor.rows("never")) == []


def test_what_a_topic_holds_is_the_last_of_each_key_and_every_message_without_one(
    log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]
) -> None:
    adaptor = topic(partitions=2)
    sent = Message("x", {"n": 7}, offset=7)  # without an id
    write(adaptor, Message("x", {"_id": 1, "n": 1}, offset=0), Message("x", {"_id": 2}, offset=1), sent)
    write(adaptor, sent, Message("x", {"_id": 1, "n": 2}, offset=2), Message("x", {"_id": 2}, Op.DELETE, offset=3))
    for partition in (0, 1):
        end = log.bounds("orders", partition).end
        log.append("orders", partition, [Record(None, b"{}")] * (20 - end) + [Record(None, b'{"of":%d}' % partition)])
    found = [one for one in adaptor.rows("x") if one]
    assert sorted(map(str, found)) == ["{'_id': 1, 'n': 2}", "{'n': 7}", "{'of': 0}", "{'of': 1}"]  # both at the offset 20


def test_a_refused_message_is_named_and_those_before_it_are_there(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic(settings=TopicSettings(max_record=2000), partitions=3)
    good = [Message("x", {"_id": n}, offset=n) for n in range(4)]
    for wrong in (
        Message("x", {"_id": 9, "text": "x" * 3000}, offset=4),
        Message("x", {"n": 1}, Op.DELETE, offset=4),
        Message("x", {"n": 1}, Op.COMMAND, offset=4),
    ):
        before = sum(log.bounds("orders", number).end for number in range(3))
        with pytest.raises(Rejected) as refused:
            write(adaptor, *good, wrong, Message("x", {"_id": 5}, offset=5))
        assert (refused.value.offset, refused.value.before_taken) == (4, True)
        assert sum(log.bounds("orders", number).end for number in range(3)) == before + 4


@pytest.mark.parametrize(("status", "code"), [(500, "damaged"), (421, "not-owner"), (500, "bug"), (403, "forbidden"), (503, "closed")])
def test_what_is_wrong_with_a_server_is_no_message_s_fault(status: int, code: str) -> None:
    topic = {"name": "orders", "partitions": 1, "settings": {"max_record": "16MiB"}, "generation": "g"}

    def problem(status: int, code: str, detail: str) -> dict[str, object]:
        return {"title": code, "status": status, "code": code, "detail": detail, "hint": "mend it"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*((200, topic) if self.path == "/log/orders" else (404, problem(404, "unknown-topic", "none"))))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._answer(status, problem(status, code, "something with the server"))

        def _answer(self, status: int, body: dict[str, object]) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(values.encode(body))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with pytest.raises(Unavailable, match="something with the server"):
                write(headwater(f"http://127.0.0.1:{server.server_port}", topic="orders"), Message("x", {"_id": 1}, offset=0))
        finally:
            server.shutdown()
            thread.join()


def test_a_message_that_is_too_large_by_its_headers_alone_is_found_among_others(
    log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]
) -> None:
    adaptor = topic(settings=TopicSettings(max_record=200))
    messages = [Message("x", {"_id": n, "text": "x" * (170 if n == 13 else 1)}, offset=n) for n in range(30)]
    with pytest.raises(Rejected, match="larger than the topic's limit") as refused:
        write(adaptor, *messages)
    assert (refused.value.offset, refused.value.before_taken) == (13, True)
    assert [values.decode(one.value or b"")["_id"] for one in log.read("orders", 0, 0)] == list(range(13))


def test_names_that_no_topic_can_have_are_refused_at_their_message(tmp_path: Path) -> None:
    adaptor = headwater(str(tmp_path / "data"), topic="{namespace}")
    for name in ("in/orders.jsonl", "pipeline-shop"):
        with pytest.raises(Rejected) as refused:
            write(adaptor, Message(name, {"_id": 1}, offset=2))
        assert refused.value.offset == 2


def test_a_partition_that_has_an_only_writer_is_left_to_it(log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor]) -> None:
    adaptor = topic()
    writer = adaptor.writer(part())
    log.claim("orders", 0)
    with pytest.raises(ReadOnly, match="has another owner"):
        writer.write(Batch(start=0, end=1, messages=[Message("x", {"_id": 1}, offset=0)]))
    writer.close()
    with pytest.raises(BadConfig, match="has an owner"):
        adaptor.check("sink", ALL)


def test_a_sink_can_be_verified_although_messages_came_twice(log: EmbeddedLog, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n}}}\n' for n in range(30)))
    pipeline = Pipeline("p")
    pipeline.source("in", file(str(tmp_path / "in.jsonl"))).save("topic", headwater(str(tmp_path / "data"), topic="orders", partitions=2))
    assert run(pipeline, log).state == "done"
    operator = PipelineOperations(log, "p", who="ann")
    operator.mark("topic", 9, why="once more")
    assert run(pipeline, log).state == "done"
    assert sum(log.bounds("orders", number).end for number in range(2)) == 50
    compared = compare(operator, pipeline, "topic")
    assert (compared.expected, compared.found, compared.equal) == (30, 30, True)


def test_a_document_that_is_no_record_is_refused(tmp_path: Path) -> None:
    sink = headwater(str(tmp_path / "data"), topic="copy", format="bytes")
    for data in ({"key": None}, {"value": 5}, {"value": "v", "headers": ["x"]}, {"value": "v", "headers": [{"name": "n", "value": 1}]}):
        with pytest.raises(Rejected) as refused:
            write(sink, Message("n", data, offset=3))
        assert refused.value.offset == 3
    write(sink, Message("n", {"value": "text", "key": "k"}, offset=4))
    with EmbeddedLog(tmp_path / "data", read_only=True) as log:
        assert [(one.key, one.value) for one in log.read("copy", 0, 0)] == [(b"k", b"text")]


# -- circles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["orders", "{namespace}"])
def test_a_pipeline_does_not_write_to_what_it_reads(
    written: str, log: EmbeddedLog, topic: Callable[..., HeadwaterAdaptor], tmp_path: Path
) -> None:
    pipeline = Pipeline("round")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data")  # another name does not hide it
    pipeline.source("in", topic(Record(b"1", b"{}"))).transform(omit("x")).save("out", headwater(str(link), topic=written))
    with pytest.raises(BadConfig, match="Sink out would write to orders, which the same pipeline reads"):
        run(pipeline, log)
    assert log.bounds("orders", 0).end == 1


def test_a_pipeline_does_not_read_its_own_log(log: EmbeddedLog, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n{"_id":2}\n')
    first, own = Pipeline("shop"), Pipeline("shop")
    first.source("in", file(str(tmp_path / "in.jsonl"))).save("out", file(f"{tmp_path}/out/"))
    run(first, log)
    own.source("in", headwater(str(tmp_path / "data"), topic="pipeline-shop", format="message")).save("out", file(f"{tmp_path}/out/"))
    with pytest.raises(BadConfig, match="would read its own log"):
        run(own, log, again=True)
    assert log.bounds("pipeline-shop", 0).end < 20


def test_a_circle_that_the_addresses_show_is_refused_before_anything_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHERE", "http://host:1")

    def complete(read: HeadwaterAdaptor, written: HeadwaterAdaptor, name: str = "p", log_dir: str | None = None) -> None:
        pipeline = Pipeline(name, log_dir=log_dir)
        pipeline.source("in", read).save("out", written)
        pipeline.complete()

    for read, written in (
        (headwater("data", topic="t"), headwater(topic="t")),
        (headwater("data", topic="t"), headwater(str(tmp_path / "x" / ".." / "data"), topic="{namespace}")),
        (headwater("${WHERE}", topic="t"), headwater("http://HOST:1/", topic="t", format="bytes")),
        (headwater("kafka://a:1,b:1", topic="t"), headwater("kafka://b:1", topic="t")),
    ):
        with pytest.raises(BadConfig, match="Sink out would write to t"):
            complete(read, written)
    for read, written in (
        (headwater("data", topic="t"), headwater("data", topic="copy-{namespace}")),
        (headwater("data", topic="t"), headwater("other", topic="t")),
        (headwater("${NOWHERE}", topic="t"), headwater("data", topic="t")),
        (headwater("data", topic="pipeline-t", format="message"), headwater("data", topic="t")),
    ):
        complete(read, written)
    own = headwater(topic="pipeline-p", format="message")
    with pytest.raises(BadConfig, match="its own log"):
        complete(own, headwater("data", topic="t"))
    complete(own, headwater("data", topic="t"), log_dir="elsewhere")
    complete(own, headwater("data", topic="t"), name="q")


# -- addresses and options ------------------------------------------------------------------------------------


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHERE", "http://Host:8420/")
    assert resolved_address(headwater("d", topic="t")) == HeadwaterAddress(kind="directory", where=str(tmp_path / "d"))
    assert resolved_address(headwater(topic="t")).where == str(tmp_path / "data")
    assert resolved_address(headwater("${WHERE}", topic="t")) == HeadwaterAddress(kind="server", where="http://host:8420")
    kafka = resolved_address(headwater("kafka://a:1,b:2", topic="t", client={"sasl.password": "${WHERE}"}))
    assert (kafka.kind, kafka.where, kafka.client) == ("kafka", "a:1,b:2", {"sasl.password": "http://Host:8420/"})
    (tmp_path / "headwater.toml").write_text('[log]\nengine = "kafka"\n[kafka]\nbootstrap = ["b:2"]\n')
    assert resolved_address(headwater(topic="t")).where == "b:2"


@pytest.mark.parametrize(
    "address",
    ["ftp://secret@host", "http://ann:secret@host", "http://:1", "http://host/?token=secret", "kafka://secret@host:1", "kafka://"],
)
def test_what_is_no_address_is_told_without_showing_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", address)
    for given in ("${WHERE}", address):
        with pytest.raises(BadConfig) as wrong:
            headwater(given, topic="t").check("source", ALL)
        assert "secret" not in str(wrong.value)
    with pytest.raises(BadConfig):
        headwater(address, topic="t")  # so that it is never shown as part of a pipeline


def test_options_that_cannot_be(tmp_path: Path) -> None:
    for wrong in ({"topic": "a b"}, {"topic": "t", "partitions": 0}, {"topic": "t", "format": "jsno"}, {"topic": "t", "tokn": "x"}, {}):
        with pytest.raises(BadConfig):
            headwater("d", **wrong)
    with pytest.raises(BadConfig, match="log of a pipeline") as told:
        headwater(str(tmp_path), topic="pipeline-x").check("source", ALL)
    assert 'format="message"' in told.value.hint
    for adaptor in (headwater("d", topic="pipeline-x", format="bytes"), headwater("d", topic="t", format="message")):
        with pytest.raises(BadConfig):
            adaptor.check("sink", ALL)
    with pytest.raises(BadConfig, match="one topic"):
        headwater("d", topic="{namespace}").plan(ALL, 1)
    with pytest.raises(BadInput):
        headwater("d", topic="x-{namespace}").topic_for("a/b")


def test_what_is_not_there_is_told_and_nothing_is_made(topic: Callable[..., HeadwaterAdaptor], tmp_path: Path) -> None:
    topic(Record(None, b"{}"))
    with pytest.raises(NotFound, match="no data directory"):
        headwater(str(tmp_path / "nowhere"), topic="orders").check("source", ALL)
    with pytest.raises(UnknownTopic) as told:
        headwater(str(tmp_path / "data"), topic="order").check("source", ALL)
    assert told.value.hint == "Did you mean orders?"
    with pytest.raises(NotFound, match="does not match orders"):
        topic().check("source", Namespaces("^other$"))
    new = headwater(str(tmp_path / "new" / "data"), topic="t", partitions=2)
    assert new.check("sink", ALL) == [f"topic t at {tmp_path}/new/data will be made, with 2 partitions"]
    assert not (tmp_path / "new").exists()
    with pytest.raises(Unreachable, match="No headwater server answers"):
        headwater("http://127.0.0.1:9", topic="t", token="secret").check("source", ALL)


def test_a_directory_that_cannot_be_written_is_told() -> None:
    with TemporaryDirectory() as closed:
        Path(closed).chmod(0o555)
        root = os.getuid() == 0  # root may write everywhere: it becomes nobody for a moment
        if root:
            os.setresuid(_NOBODY, _NOBODY, 0)
        try:
            with pytest.raises(ReadOnly):
                headwater(f"{closed}/data", topic="t").check("sink", ALL)
        finally:
            if root:
                os.setresuid(0, 0, 0)


def test_trying_it_out_reads_one_message_and_writes_nothing(topic: Callable[..., HeadwaterAdaptor], tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    pipeline.source("in", topic(Record(b"1", b'{"n":1}'))).save("out", headwater(str(tmp_path / "new"), topic="t"))
    found = preflight(pipeline)
    assert [one["ok"] for one in found["checks"]] == [True, True]
    assert found["message"] == {"namespace": "orders", "data": {"n": 1, "_id": 1}}
    assert not (tmp_path / "new").exists()
