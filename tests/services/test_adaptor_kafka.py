"""The Kafka adaptor against a real broker."""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_raw import produce_raw
from tools.services.private import PrivateServers

from headwater.adaptors.kafka import source
from headwater.adaptors.kafka.adaptor import KafkaAdaptor, kafka
from headwater.adaptors.kafka.connection import Cluster
from headwater.core.errors import BadConfig, BadInput, Denied, Differs, NotFound, OffsetGone, Rejected, Timeout, Unreachable
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan
from headwater.pipeline.source_progress import CopySize
from headwater.testing import CopyContract

pytestmark = pytest.mark.service("kafka")
PATIENCE = 30.0


class Broker:
    """A broker's topics, made and filled by the test."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def topic(self, partitions: int = 1, *, name: str = "", **config: str) -> str:
        name = name or f"t-{uuid.uuid4().hex[:10]}"
        (made,) = self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
        made.result(PATIENCE)
        until = time.monotonic() + PATIENCE
        while name not in self.admin.list_topics(timeout=PATIENCE).topics:  # the controller knows of it a moment before the broker does
            assert time.monotonic() < until
            time.sleep(0.02)
        return name

    def put(self, topic: str, *values: bytes | None, partition: int = 0, key: bytes | None = None, **more: Any) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, key, partition, **more)
        assert producer.flush(PATIENCE) == 0

    def got(self, topic: str, count: int, partition: int = 0) -> list[Any]:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Any] = []
        until = time.monotonic() + PATIENCE
        while len(found) < count:
            assert time.monotonic() < until
            found += consumer.consume(count - len(found), 0.5)
        consumer.close()
        return found


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    return Broker(request.getfixturevalue("kafka"))


def only(topic: str) -> Namespaces:
    return Namespaces(f"^{topic}$")


def part(**changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=0, end=1000), **changes)


def write(adaptor: KafkaAdaptor, *messages: Message, where: Part | None = None) -> None:
    writer = adaptor.writer(where or part())
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


def copied(adaptor: KafkaAdaptor, plan: CopyPlan) -> list[list[Message]]:
    """The messages of each slice."""
    return [[message for piece in adaptor.read(one, None) for message in piece.messages] for one in plan.slices]


def followed(adaptor: KafkaAdaptor, cursor: Any, topic: str, count: int) -> tuple[list[Message], Any]:
    found: list[Message] = []
    until = time.monotonic() + PATIENCE
    position = cursor
    for piece in adaptor.follow(cursor, only(topic), lambda: len(found) >= count or time.monotonic() > until):
        found.extend(piece.messages)
        position = piece.position
    assert len(found) >= count
    return found, position


# -- the source ---------------------------------------------------------------------------------------------


def test_each_partition_is_a_slice_up_to_where_it_ended(broker: Broker) -> None:
    topic, adaptor = broker.topic(3), kafka(broker.servers)
    broker.put(topic, b'{"_id":1,"n":12345678901234567890}', b'{"_id":2}', partition=0, timestamp=5_000)
    broker.put(topic, b'{"_id":3}', partition=2)
    plan = adaptor.plan(only(topic), 8)
    assert plan.repeats
    broker.put(topic, b'{"_id":4}', partition=0)  # comes after the plan: following gets it
    assert [one.spec for one in plan.slices] == [{"partition": 0, "begin": 0, "end": 2}, {"partition": 2, "begin": 0, "end": 1}]
    assert plan.size == CopySize(total=3, unit="offsets")
    assert [one.size for one in plan.slices] == [2, 1]
    first, second = copied(adaptor, plan)
    assert [message.data for message in first] == [{"_id": 1, "n": 12345678901234567890}, {"_id": 2}]
    assert (first[0].namespace, first[0].op, first[0].timestamp) == (topic, Op.INSERT, 5_000)
    assert [message.data for message in second] == [{"_id": 3}]
    changes, position = followed(adaptor, plan.cursor, topic, 1)
    assert [message.data for message in changes] == [{"_id": 4}]
    assert position == {topic: {"id": plan.identity[topic], "0": 3, "1": 0, "2": 1}}


def test_reading_goes_on_behind_a_position(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers)
    big = b'{"_id":%d,"text":"' + b"x" * 40_000 + b'"}'
    broker.put(topic, *[big % n for n in range(300)])
    (one,) = adaptor.plan(only(topic), 1).slices
    pieces = list(adaptor.read(one, None))
    assert len(pieces) > 2
    assert [m.data["_id"] for piece in pieces for m in piece.messages] == list(range(300))
    assert [piece.amount for piece in pieces] == [piece.position for piece in pieces]
    assert [m.data["_id"] for piece in adaptor.read(one, pieces[0].position) for m in piece.messages] == list(
        range(len(pieces[0].messages), 300)
    )
    assert list(adaptor.read(one, pieces[-1].position)) == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_is_open_when_a_copy_begins_is_read_with_the_changes(broker: Broker, commit: bool) -> None:
    topic = broker.topic()
    broker.put(topic, b'{"_id":1}')
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b'{"_id":2}')
    assert producer.flush(PATIENCE) == 0
    broker.put(topic, b'{"_id":3}')
    adaptor = kafka(broker.servers, tail=True)
    plan = adaptor.plan(only(topic), 1)
    copied = [one.data["_id"] for part in plan.slices for piece in adaptor.read(part, None) for one in piece.messages]
    producer.commit_transaction(PATIENCE) if commit else producer.abort_transaction(PATIENCE)
    broker.put(topic, b'{"_id":4}')
    wanted = [1, 2, 3, 4] if commit else [1, 3, 4]
    for piece in adaptor.follow(plan.cursor, only(topic), lambda: len(copied) >= len(wanted)):
        copied.extend([one.data["_id"] for one in piece.messages])
    assert copied == wanted


def test_only_committed_transactions_are_read_and_their_marks_end_no_copy(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions(PATIENCE)
    for number, commit in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, b'{"_id":%d}' % number)
        producer.flush(PATIENCE)
        producer.commit_transaction(PATIENCE) if commit else producer.abort_transaction(PATIENCE)
    (one,) = adaptor.plan(only(topic), 1).slices
    assert one.spec["end"] == 6
    pieces = list(adaptor.read(one, None))
    assert [m.data for piece in pieces for m in piece.messages] == [{"_id": 1}, {"_id": 3}]
    assert pieces[-1].position == 6


def test_what_was_deleted_before_it_was_read_is_an_error(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers)
    broker.put(topic, b'{"_id":1}', b'{"_id":2}', b'{"_id":3}')
    plan = adaptor.plan(only(topic), 1)
    (done,) = broker.admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    done.result(PATIENCE)
    with pytest.raises(Differs, match="were deleted"):
        list(adaptor.read(plan.slices[0], None))
    with pytest.raises(OffsetGone, match="no longer has offset 0"):
        followed(adaptor, {topic: {"0": 0}}, topic, 1)
    assert [m.data for m in followed(adaptor, {topic: {"0": 2}}, topic, 1)[0]] == [{"_id": 3}]


def test_null_values_are_deletes_and_other_values_are_marked(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers)
    broker.put(topic, None, key=b"a-7")
    broker.put(topic, None, key=b"7")
    broker.put(topic, None, key=b'{"region":1,"id":2}')
    broker.put(topic, None, b"no json", b"[1]")
    (one,) = adaptor.plan(only(topic), 1).slices
    (piece,) = adaptor.read(one, None)
    assert [(m.op, m.data) for m in piece.messages[:3]] == [
        (Op.DELETE, {"_id": "a-7"}),
        (Op.DELETE, {"_id": 7}),
        (Op.DELETE, {"region": 1, "id": 2}),
    ]
    assert sorted(piece.bad) == [3, 4, 5]
    assert piece.bad[4].startswith(f"Offset 4 of {topic}, partition 0: This is no JSON object")
    assert piece.messages[4].data == {"value": "no json"}


def test_a_topic_that_was_made_anew_is_another(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers, id=["region", "n"])
    broker.put(topic, b"{}")
    plan = adaptor.plan(only(topic), 1)
    assert plan.ids == {topic: ("region", "n")}
    assert adaptor.same(plan, only(topic))
    (done,) = broker.admin.delete_topics([topic]).values()
    done.result(PATIENCE)
    until = time.monotonic() + PATIENCE
    while adaptor.same(plan, only(topic)):
        assert time.monotonic() < until


def test_a_topic_that_was_made_anew_while_nobody_followed_is_not_read_from_its_middle(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers, tail=True)
    broker.put(topic, b'{"_id":1}', b'{"_id":2}')
    _, position = followed(adaptor, None, topic, 2)
    (done,) = broker.admin.delete_topics([topic]).values()
    done.result(PATIENCE)
    until = time.monotonic() + PATIENCE
    while topic in broker.admin.list_topics(timeout=PATIENCE).topics:
        assert time.monotonic() < until
        time.sleep(0.02)
    broker.topic(name=topic)
    broker.put(topic, b'{"_id":3}', b'{"_id":4}', b'{"_id":5}')  # more than were read: the old offset is there
    with pytest.raises(Differs, match=f"{topic} .* made anew"):
        next(adaptor.follow(position, only(topic), lambda: False))


def test_following_is_not_done_while_brokers_do_not_answer(private_servers: PrivateServers, monkeypatch: pytest.MonkeyPatch) -> None:
    running = private_servers.up("kafka")
    broker = Broker(running.kafka)
    topic, adaptor = broker.topic(), kafka(running.kafka, tail=True)
    broker.put(topic, b'{"_id":1}')
    ids = Cluster.identity

    def then_it_dies(cluster: Cluster, topics: list[str]) -> dict[str, str]:
        found = ids(cluster, topics)
        running.kill("broker-1")
        return found

    monkeypatch.setattr(Cluster, "identity", then_it_dies)
    monkeypatch.setattr(source, "_FIRST", 2.0)
    with pytest.raises(Unreachable, match=f"nor the end of {topic}, partition 0"):  # an empty piece would end a run that does not follow
        next(adaptor.follow(None, only(topic), lambda: False))


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.SASL_AUTHENTICATION_FAILED])
def test_a_right_that_is_missing_is_not_taken_for_silence(code: int) -> None:
    assert source.is_final(KafkaError(code))
    assert not source.is_final(KafkaError(KafkaError._ALL_BROKERS_DOWN))


def test_a_header_of_somebody_else_s_makes_no_message_vanish(broker: Broker) -> None:
    topic = broker.topic()
    for op in (b"skip", b"noop", b"command", b"update"):
        broker.put(topic, b"{}", headers=[("op", op)])
    found, _ = followed(kafka(broker.servers), None, topic, 4)
    assert [message.op for message in found] == [Op.INSERT, Op.INSERT, Op.INSERT, Op.UPDATE]


def test_a_header_name_that_is_no_text_makes_its_message_a_bad_one(broker: Broker) -> None:
    topic = broker.topic()
    produce_raw(broker.servers, topic, b"k", b"{}", [(b"\xff\xfe", b"x"), (b"op", b"delete")])
    broker.put(topic, b'{"id": 2}')
    (plan,) = kafka(broker.servers).plan(only(topic), 1).slices
    pieces = list(kafka(broker.servers).read(plan, None))
    assert [message.data for piece in pieces for message in piece.messages] == [{}, {"id": 2}]
    assert [text for piece in pieces for text in piece.bad.values()] == [
        f"Offset 0 of {topic}, partition 0: The name of a header is not UTF-8, so that none of its headers can be read."
    ]


def test_following_is_quiet_only_at_the_end(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(topic, *[b'{"n":1}'] * 3000, partition=1)
    sizes = []
    for piece in kafka(broker.servers, tail=True).follow({}, only(topic), lambda: False):
        sizes.append(len(piece.messages))
        if not piece.messages:
            break
    assert sum(sizes) == 3000


def test_idle_topics_give_empty_pieces(broker: Broker) -> None:
    topic = broker.topic()
    adaptor = kafka(broker.servers, tail=True)
    cursor = adaptor.plan(only(topic), 1).cursor
    pieces = adaptor.follow(cursor, only(topic), lambda: False)
    assert [(len(piece.messages), piece.position) for piece in (next(pieces), next(pieces))] == [(0, cursor)] * 2
    pieces.close()


# -- the sink -----------------------------------------------------------------------------------------------


def test_messages_go_to_the_topic_of_their_namespace_by_their_id(broker: Broker) -> None:
    topic = broker.topic()
    write(
        kafka(broker.servers),
        Message(topic, {"_id": "a", "n": 2**64}, offset=7, timestamp=5_000),
        Message(topic, {"_id": 5}, Op.UPDATE, offset=8),
        Message(topic, {"_id": 5, "n": 1}, Op.DELETE, offset=9),
        Message(topic, {"n": 1}, offset=10),
    )
    got = broker.got(topic, 4)
    assert [(one.key(), one.value()) for one in got] == [
        (b"a", b'{"_id":"a","n":18446744073709551616}'),
        (b"5", b'{"_id":5}'),
        (b"5", None),
        (None, b'{"n":1}'),
    ]
    assert got[0].timestamp()[1] == 5_000
    assert [dict(one.headers()) for one in got[:3]] == [
        {"op": b"insert", "offset": b"7"},
        {"op": b"update", "offset": b"8"},
        {"op": b"delete", "offset": b"9", "data": b'{"_id":5}'},
    ]


def test_what_was_written_is_read_as_it_was(broker: Broker) -> None:
    topic, adaptor = broker.topic(), kafka(broker.servers, id=("a", "b"))
    given = [
        Message(topic, {"a": 1, "b": "2", "x": [1]}, offset=0, id_fields=("a", "b")),
        Message(topic, {"a": 1, "b": "2", "x": [2]}, Op.UPDATE, offset=1, id_fields=("a", "b")),
        Message(topic, {"a": 1, "b": "2"}, Op.DELETE, offset=2, id_fields=("a", "b")),
    ]
    write(adaptor, *given)
    (found,) = copied(adaptor, adaptor.plan(only(topic), 1))
    assert [(m.op, m.data, m.id) for m in found] == [(m.op, m.data, m.id) for m in given]


def test_changes_of_one_document_stay_in_one_partition(broker: Broker) -> None:
    topic, adaptor = broker.topic(4), kafka(broker.servers)
    write(adaptor, *[Message(topic, {"_id": n % 10, "n": n}, offset=n) for n in range(200)])
    slices = copied(adaptor, adaptor.plan(only(topic), 4))
    assert sum(map(len, slices)) == 200
    seen = [{m.data["_id"] for m in one} for one in slices]
    assert sum(map(len, seen)) == 10
    for one in slices:
        for number in {m.data["_id"] for m in one}:
            mine = [m.data["n"] for m in one if m.data["_id"] == number]
            assert mine == sorted(mine)


def test_a_refused_message_is_named_and_those_before_it_are_there(broker: Broker) -> None:
    topic = broker.topic(**{"max.message.bytes": "2000"})
    adaptor = kafka(broker.servers)
    messages = [Message(topic, {"_id": n, "text": "x" * (5000 if n == 2 else 10)}, offset=n) for n in range(4)]
    with pytest.raises(Rejected, match="refuses it") as refused:
        write(adaptor, *messages[:3])
    assert refused.value.offset in (-1, 2)  # a broker refuses the client's whole request: then nobody is blamed, and they come one by one
    assert refused.value.before_taken == (refused.value.offset == 2)
    with pytest.raises(Rejected) as refused:
        write(adaptor, messages[2])
    assert refused.value.offset == 2
    for wrong in (Message("no such name", {"_id": 1}, offset=5), Message(topic, {"n": 1}, Op.DELETE, offset=5)):
        with pytest.raises(Rejected) as refused:
            write(adaptor, messages[3], wrong)
        assert (refused.value.offset, refused.value.before_taken) == (5, True)


def test_what_is_still_on_its_way_does_not_count_as_taken_when_a_later_message_is_refused() -> None:
    with pytest.raises(Timeout, match=r"within 0\.3 s: .*Connection refused"):
        write(
            kafka("127.0.0.1:1"),  # nobody is there
            Message("t", {"_id": 1}, offset=0),
            Message("t", {"_id": 2, "text": "x" * 2_000_000}, offset=1),  # the client itself refuses it, at once
            where=part(timeout=0.3),
        )


def test_a_topic_that_is_not_there(broker: Broker) -> None:
    with pytest.raises(Rejected, match="no such topic") as refused:
        write(kafka(broker.servers), Message("t-never-made", {"_id": 1}, offset=4))
    assert refused.value.offset == 4
    with pytest.raises(NotFound, match="t-never-made"):
        kafka(broker.servers, topic="t-never-made").check("sink", Namespaces())
    with pytest.raises(NotFound, match="t-never-made"):
        kafka(broker.servers).plan(Namespaces("^t-never-made$"), 1)


def test_the_check_says_what_is_there(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, b"{}", b"{}")
    assert kafka(broker.servers).check("source", only(topic)) == [f"topic {topic}: 2 offsets"]
    assert kafka(broker.servers, topic=topic).check("sink", Namespaces())[0].endswith(" topics")


def test_a_broker_that_dies_is_no_fault_of_a_message(private_servers: PrivateServers) -> None:
    running = private_servers.up("kafka")
    broker = Broker(running.kafka)
    topic, adaptor = broker.topic(), kafka(running.kafka)
    writer = adaptor.writer(part(timeout=2.0))
    writer.write(Batch(start=0, end=100, messages=[Message(topic, {"_id": n}, offset=n) for n in range(100)]))
    running.kill("broker-1")
    with pytest.raises((Timeout, Unreachable)):
        writer.write(Batch(start=100, end=101, messages=[Message(topic, {"_id": 100}, offset=100)]))
    writer.close()
    with pytest.raises(Unreachable):
        adaptor.check("sink", Namespaces())


def test_why_a_broker_cannot_be_reached_is_told(broker: Broker) -> None:
    with pytest.raises(Unreachable, match="Connection refused"):
        kafka("127.0.0.1:1").check("source", Namespaces())
    with pytest.raises(Unreachable, match=r"resolve 'no-such-host\.invalid"):
        kafka("no-such-host.invalid:9092").check("source", Namespaces())
    user = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hidden"}
    with pytest.raises(Denied, match="SASL") as problem:
        kafka(broker.servers, client=user).check("sink", Namespaces())
    assert "hidden" not in str(problem.value)


def test_options_that_cannot_be() -> None:
    with pytest.raises(BadConfig, match="names no broker"):
        kafka(" ")
    for wrong in ({"client": {"acks": "1"}}, {"client": {"x": 1}}, {"topics": "x"}):
        with pytest.raises(BadConfig):
            kafka("127.0.0.1:1", **wrong)
    with pytest.raises(BadConfig, match="does not take its settings"):
        kafka("127.0.0.1:1", client={"no.such.setting": "1"}).writer(part())
    for name in ("a b", "", "..", "x" * 250):
        with pytest.raises(BadInput):
            kafka("h:1").topic_for(name)
    assert kafka("h:1", topic="shop-{namespace}").topic_for("orders") == "shop-orders"


# -- what every adaptor promises ----------------------------------------------------------------------------


class TestTopic(CopyContract):
    @pytest.fixture
    def source(self, broker: Broker) -> CanCopy:
        topic = broker.topic(2)
        for number in range(2):
            broker.put(topic, *[b'{"_id":%d}' % n for n in range(number, 50, 2)], partition=number)
        return _Only(servers=broker.servers, chosen=topic)


class _Only(KafkaAdaptor, frozen=True, kw_only=True):
    """The contract reads every namespace, and others use this broker."""

    chosen: str

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return super().plan(only(self.chosen), slices)

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        return super().check(role, only(self.chosen))


@pytest.mark.parametrize(("options", "read"), [({}, "[Decimal('1.25'), Decimal('1.20'), 7]"), ({"decimals": "float"}, "[1.25, 1.2, 7]")])
def test_numbers_with_a_point_are_of_one_type(broker: Broker, options: dict[str, Any], read: str) -> None:
    topic = broker.topic()
    broker.put(topic, b'{"_id":1,"n":[1.25,1.20,7]}')
    adaptor = kafka(broker.servers, **options)
    plan = adaptor.plan(only(topic), 1)
    [message] = [one for slice in plan.slices for piece in adaptor.read(slice, None) for one in piece.messages]
    assert repr(message.data["n"]) == read
