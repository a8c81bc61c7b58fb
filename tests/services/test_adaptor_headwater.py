"""headwater's own topics as source and sink: behind a real `headwater serve`, and on a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor, headwater
from headwater.adaptors.headwater.server import ServerConnection
from headwater.core.errors import Denied, Differs, Forbidden, Rejected, Timeout, UnknownTopic, Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.kafka.log import KafkaLog
from headwater.log.record import Record
from headwater.pipeline import values
from headwater.pipeline.adaptors import file
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running.run import Run
from headwater.pipeline.sink_adaptor import Batch, CanWrite, Part
from headwater.pipeline.source_adaptor import CanCopy
from headwater.server.spawned import SpawnedServer
from headwater.testing import CopyContract, SinkContract
from headwater.testing.log_ground import fresh

ALL = Namespaces()
READER, WRITER, OPERATOR = "reader-0123456789abcdef", "writer-0123456789abcdef", "operator-0123456789abcdef"


class Served(NamedTuple):
    """A server that asks for tokens, the log that it serves, and a name for a topic that nobody else uses."""

    server: SpawnedServer
    log: EmbeddedLog
    name: str

    def topic(self, name: str = "", **options: Any) -> HeadwaterAdaptor:
        return headwater(self.server.url, **({"topic": name or self.name, "token": OPERATOR} | options))


def started(folder: Path) -> SpawnedServer:
    tokens = folder / "tokens"
    tokens.write_text(f"reader {READER}\nwriter {WRITER}\noperator {OPERATOR}\n")
    tokens.chmod(0o600)
    return SpawnedServer(folder / "served", options=("--port", "0", "--token-file", str(tokens)))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpawnedServer]:
    with started(tmp_path_factory.mktemp("shared")) as server:
        yield server


@pytest.fixture
def served(shared: SpawnedServer) -> Iterator[Served]:
    with EmbeddedLog(shared.data) as log:
        yield Served(shared, log, fresh("orders"))


def changes(adaptor: HeadwaterAdaptor, cursor: Any = None) -> tuple[list[Message], Any]:
    """Everything up to the first empty piece, and the cursor behind it."""
    found: list[Message] = []
    cursor = adaptor.plan(ALL, 1).cursor if cursor is None else values.decode_any(values.encode(cursor))
    for piece in adaptor.follow(cursor, ALL, lambda: False):
        found.extend(piece.messages)
        cursor = piece.position
        if not piece.messages:
            break
    return found, cursor


def write(adaptor: HeadwaterAdaptor, *messages: Message, **more: Any) -> None:
    writer = adaptor.writer(msgspec.structs.replace(Part(pipeline="p#1", sink="s", start=0, end=1000), **more))
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


# -- a server -------------------------------------------------------------------------------------------------


def test_records_of_a_server_are_those_of_its_log(served: Served) -> None:
    served.log.create_topic(served.name, partitions=2)
    given = [
        Record(b"\x00\xff", b"\xfe{", (("h", b"\x01"), ("n", None)), 1_700_000_000_123, mode=2, op=6),
        Record(None, None, timestamp=0),
        Record(b"", b"", timestamp=253_402_300_800_000),  # a year that no calendar has
    ]
    served.log.append(served.name, 1, given)
    adaptor = served.topic(format="bytes", token=READER)
    found, cursor = changes(adaptor)
    copy = fresh("copy")
    write(served.topic(copy, format="bytes", partitions=2), *[msgspec.structs.replace(one, offset=at) for at, one in enumerate(found)])
    assert served.log.read(copy, 1, 0) == served.log.read(served.name, 1, 0)
    assert changes(adaptor, cursor)[0] == []
    served.log.append(served.name, 0, [Record(b"k", b"v")])
    assert [one.data["offset"] for one in changes(adaptor, cursor)[0]] == [0]


def test_pages_follow_the_size_of_records(served: Served) -> None:
    served.log.create_topic(served.name)
    for n in range(40):
        served.log.append(served.name, 0, [Record(None, b'{"_id":%d,"text":"%b"}' % (n, b"x" * 400_000))])
    adaptor = served.topic(tail=False)
    (one,) = adaptor.plan(ALL, 4).slices  # a partition behind a server is not cut
    pieces = list(adaptor.read(one, None))
    assert [message.data["_id"] for piece in pieces for message in piece.messages] == list(range(40))
    assert max(len(piece.messages) for piece in pieces) <= 20
    rest = [message.data["_id"] for piece in adaptor.read(one, pieces[1].position) for message in piece.messages]
    assert rest == list(range(sum(len(piece.messages) for piece in pieces[:2]), 40))


def test_who_may_do_what_is_told_before_anything_is_sent(served: Served, tmp_path: Path) -> None:
    name, new, at = served.name, fresh("new"), served.server.url
    served.log.create_topic(name)
    assert served.topic(token=READER).check("source", ALL) == [f"topic {name} at {at}: 1 partition, 0 offsets"]
    for token in (WRITER, OPERATOR):
        assert served.topic(token=token).check("sink", ALL) == [f"topic {name} at {at}: 1 partition"]
    assert served.topic(new).check("sink", ALL) == [f"topic {new} at {at} will be made, with 1 partition"]
    write(served.topic(token=WRITER), Message("x", {"_id": 1}, offset=1))
    assert served.log.bounds(name, 0).end == 1
    for one in (name, new, "{namespace}"):
        with pytest.raises(Forbidden, match="refuses") as told:
            served.topic(one, token=READER).check("sink", ALL)
        assert "writer to append, operator to create topics" in told.value.hint
    for token in (None, "wrong-0123456789abcdef"):
        with pytest.raises(Denied) as denied:
            served.topic(token=token).check("source", ALL)
        assert "token=" in denied.value.hint
        assert "wrong-" not in str(denied.value)
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n')
    pipeline = Pipeline("p")
    pipeline.source("in", file(str(tmp_path / "in.jsonl"))).save("out", served.topic(token=READER))
    with EmbeddedLog(tmp_path / "data") as log, pytest.raises(Forbidden):
        Run(pipeline, log, Settings(spark=SparkSettings(start="never"))).go()
    assert served.log.bounds(name, 0).end == 1
    assert new not in [one.name for one in served.log.topics()]
    with pytest.raises(UnknownTopic) as told_name:
        served.topic(f"{name}s").check("source", ALL)
    assert told_name.value.hint == f"Did you mean {name}?"


def test_a_message_that_a_server_cannot_take_is_found_among_others(tmp_path: Path) -> None:
    options = ("--port", "0")
    environ = {"HEADWATER_SERVER__MAX_BODY": "100KiB"}
    with SpawnedServer(tmp_path / "served", options=options, environ=dict(_environment(), **environ)) as server:
        adaptor = headwater(server.url, topic="orders")
        messages = [Message("x", {"_id": n, "text": "x" * (200_000 if n == 5 else 5_000)}, offset=n) for n in range(40)]
        with pytest.raises(Rejected) as refused:
            write(adaptor, *messages)
        assert (refused.value.offset, refused.value.before_taken) == (5, True)
        write(adaptor, *messages[6:])
        assert sorted(one["_id"] for one in adaptor.rows("x")) == [n for n in range(40) if n != 5]


def test_a_server_that_is_gone_or_slow_is_no_fault_of_a_message(tmp_path: Path) -> None:
    batch = Batch(start=1, end=2, messages=[Message("x", {"_id": 1}, offset=1)])
    with started(tmp_path) as server:
        adaptor = headwater(server.url, topic="orders", token=OPERATOR)
        writer = adaptor.writer(Part(pipeline="p#1", sink="s", start=1, end=2, timeout=2.0))
        server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(Timeout, match=r"has not taken a batch within 2 s"):
                writer.write(batch)
            with ServerConnection(server.url, OPERATOR, 0.5) as link, pytest.raises(Unreachable, match="ReadTimeout"):
                link.bounds("orders", 0)  # a source waits for it
        finally:
            server.signal(signal.SIGCONT)
        server.kill()
        with pytest.raises(Unreachable):
            writer.write(batch)
        writer.close()
        with pytest.raises(Unreachable):
            changes(adaptor)


def test_what_is_no_headwater_server_is_told(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert other.stdout is not None
        port = other.stdout.readline().split(" port ")[1].split()[0]
        for role in ("source", "sink"):
            with pytest.raises(Unreachable, match="is no headwater server"):
                headwater(f"http://127.0.0.1:{port}", topic="t").check(role, ALL)  # type: ignore[arg-type]
    finally:
        other.kill()
        other.communicate()


class TestServedSource(CopyContract):
    @pytest.fixture
    def source(self, served: Served) -> CanCopy:
        served.log.create_topic(served.name, partitions=3)
        for number in range(3):
            served.log.append(served.name, number, [Record(b"%d" % n, b'{"n":%d}' % n) for n in range(number, 50, 3)])
        return served.topic(copy=True, token=READER)


class TestServedSink(SinkContract):
    @pytest.fixture
    def sink(self, served: Served) -> CanWrite:
        return served.topic(partitions=2)


# -- a broker -------------------------------------------------------------------------------------------------


@pytest.fixture
def brokers(kafka: str) -> Iterator[tuple[str, KafkaLog]]:
    with KafkaLog(kafka) as log:
        yield f"kafka://{kafka}", log


@pytest.mark.service("kafka")
def test_a_topic_of_a_kafka_log_is_written_followed_and_copied(brokers: tuple[str, KafkaLog]) -> None:
    address, log = brokers
    topic = fresh("orders")
    adaptor = headwater(address, topic=topic, partitions=3)
    adaptor.begin("p#1", "s", 1)
    write(adaptor, *[Message("x", {"_id": n % 10, "n": n}, Op.UPDATE, offset=n) for n in range(60)])
    write(adaptor, Message("x", {"_id": 3}, Op.DELETE, offset=60))
    assert log.topic(topic).partitions == 3
    found, cursor = changes(adaptor)
    assert [[one.data["n"] for one in found if one.id == number and one.op is Op.UPDATE] for number in range(10)] == [
        list(range(number, 60, 10)) for number in range(10)
    ]
    assert [one.data for one in found if one.op is Op.DELETE] == [{"_id": 3}]
    assert sorted(one["_id"] for one in adaptor.rows("x")) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    write(adaptor, Message("x", {"_id": 77}, offset=61))
    assert [one.data for one in changes(adaptor, cursor)[0]] == [{"_id": 77}]
    log.delete_topic(topic)
    log.create_topic(topic, partitions=3)
    with pytest.raises(Differs, match="made anew"):
        changes(adaptor, cursor)


@pytest.mark.service("kafka")
def test_the_log_of_a_pipeline_on_kafka_is_read_without_what_stale_runs_wrote(brokers: tuple[str, KafkaLog]) -> None:
    address, log = brokers
    topic = f"pipeline-{fresh('p')}"
    log.create_topic(topic, part=PART)
    first = log.claim(topic, 0, part=PART)
    first.append([Record(b"a", b'{"_id":1}')])
    second = log.claim(topic, 0, part=PART)
    log.append(topic, 0, [Record(b"a", b'{"_id":666}')], part=PART)  # of somebody who has no claim
    second.append([Record(b"a", b'{"_id":2}')])
    adaptor = headwater(address, topic=topic, format="message")
    found, cursor = changes(adaptor)
    assert [one.data for one in found] == [{"_id": 1}, {"_id": 2}]
    log.append(topic, 0, [Record(b"a", b'{"_id":667}')], part=PART)
    second.append([Record(b"a", b'{"_id":3}')])
    assert [one.data for one in changes(adaptor, cursor)[0]] == [{"_id": 3}]  # the cursor remembers the claim
    copied = msgspec.structs.replace(adaptor, tail=False)
    assert [m.data["_id"] for one in copied.plan(ALL, 4).slices for piece in copied.read(one, None) for m in piece.messages] == [1, 2, 3]


@pytest.mark.service("kafka")
def test_changes_behind_a_copy_know_of_the_claims_in_it(brokers: tuple[str, KafkaLog]) -> None:
    """What somebody without the claim appends after the copy was planned counts no more than what they appended before."""
    address, log = brokers
    topic = f"pipeline-{fresh('p')}"
    log.create_topic(topic, part=PART)
    writer = log.claim(topic, 0, part=PART)
    writer.append([Record(b"a", b'{"_id":1}')])
    adaptor = headwater(address, topic=topic, format="message", copy=True)
    plan = adaptor.plan(ALL, 4)
    log.append(topic, 0, [Record(b"a", b'{"_id":666}')], part=PART)
    writer.append([Record(b"a", b'{"_id":2}')])
    assert [m.data["_id"] for one in plan.slices for piece in adaptor.read(one, None) for m in piece.messages] == [1]
    assert [one.data["_id"] for one in changes(adaptor, plan.cursor)[0]] == [2]


@pytest.mark.service("kafka")
def test_a_pipeline_runs_from_a_directory_to_a_kafka_log(brokers: tuple[str, KafkaLog], tmp_path: Path) -> None:
    address, log = brokers
    topic = fresh("orders")
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n}}}\n' for n in range(500)))
    pipeline = Pipeline("p")
    pipeline.source("in", file(str(tmp_path / "in.jsonl"))).save("out", headwater(address, topic=topic, partitions=2))
    with EmbeddedLog(tmp_path / "data") as own:
        assert Run(pipeline, own, Settings(spark=SparkSettings(start="never"))).go().state == "done"
        assert compare(PipelineOperations(own, "p"), pipeline, "out").equal
    assert sum(log.bounds(topic, number).end for number in range(2)) == 500


@pytest.mark.service("kafka")
class TestKafkaLogSource(CopyContract):
    @pytest.fixture
    def source(self, brokers: tuple[str, KafkaLog]) -> CanCopy:
        address, log = brokers
        topic = fresh("orders")
        log.create_topic(topic, partitions=2)
        for number in range(2):
            log.append(topic, number, [Record(None, b'{"_id":%d}' % n) for n in range(number, 50, 2)])
        return headwater(address, topic=topic, copy=True)


@pytest.mark.service("kafka")
class TestKafkaLogSink(SinkContract):
    @pytest.fixture
    def sink(self, brokers: tuple[str, KafkaLog]) -> CanWrite:
        return headwater(brokers[0], topic=fresh("orders"), partitions=2)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
