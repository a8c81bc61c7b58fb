"""RabbitMQ: the server, and the adaptor against it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pika
import pytest
from tools.services.private import PrivateServers

from headwater.adaptors.file.adaptor import file
from headwater.adaptors.rabbitmq.adaptor import RabbitMQ, rabbitmq
from headwater.core.errors import BadConfig, Denied, NotFound, Rejected, TooLarge, Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.run import Run
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.pipeline.source_adaptor import LONGEST

pytestmark = pytest.mark.service("rabbitmq")


class Broker:
    """A connection of the test's own, and queues that go with it."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.name = f"t-{uuid.uuid4().hex[:10]}"
        self._connection = pika.BlockingConnection(pika.URLParameters(uri))
        self.channel = self._connection.channel()
        self.queues: list[str] = []

    def queue(self, end: str = "", **arguments: Any) -> str:
        name = self.name + end
        self.channel.queue_declare(name, durable=True, arguments=arguments)
        self.queues.append(name)
        return name

    def put(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        for body in bodies:
            self.channel.basic_publish("", queue, body, pika.BasicProperties(**properties))

    def waiting(self, queue: str) -> int:
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def got(self, queue: str) -> list[tuple[Any, bytes]]:
        """Everything in the queue, taken out."""
        found = []
        while (answer := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append((answer[1], answer[2]))
        return found

    def close(self) -> None:
        for name in self.queues:
            self.channel.queue_delete(name)
        self._connection.close()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    made = Broker(request.getfixturevalue("rabbitmq"))
    yield made
    made.close()


def part(**changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=0, end=1000), **changes)


def write(adaptor: RabbitMQ, *messages: Message, where: Part | None = None) -> None:
    writer = adaptor.writer(where or part())
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


def followed(adaptor: RabbitMQ, namespace: str, count: int) -> list[Message]:
    """Read until so many messages have come, and ask once more, so that they are let go of."""
    found: list[Message] = []
    for piece in adaptor.follow(None, Namespaces(namespace), lambda: len(found) >= count):
        found.extend(piece.messages)
    return found


def polling(seconds: float) -> Iterator[None]:
    """Again and again until the time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)


# -- the sink -----------------------------------------------------------------------------------------------


def test_messages_go_to_the_queue_of_their_namespace(broker: Broker) -> None:
    queue = broker.queue()
    write(
        rabbitmq(broker.uri),
        Message(queue, {"_id": 1, "big": 2**63 + 1}, offset=7, timestamp=5_000),
        Message(queue, {"_id": 1}, Op.DELETE, offset=8),
    )
    (first, body), (second, _) = broker.got(queue)
    assert body == b'{"_id":1,"big":9223372036854775809}'
    assert (first.delivery_mode, first.message_id, first.timestamp, first.content_type) == (2, "p/s/7", 5, "application/json")
    assert first.headers == {"op": "insert", "namespace": queue, "offset": 7}
    assert second.headers["op"] == "delete"


def test_the_routing_key_may_stand_in_a_field(broker: Broker) -> None:
    red, blue = broker.queue("-red"), broker.queue("-blue")
    adaptor = rabbitmq(broker.uri, routing_key="to.queue", key_in_field=True, delivery_mode="transient")
    write(adaptor, Message("x", {"to": {"queue": red}}, offset=0), Message("x", {"to": {"queue": blue}}, offset=1))
    assert [len(broker.got(red)), len(broker.got(blue))] == [1, 1]
    with pytest.raises(Rejected, match=r"to\.queue holds no routing key") as refused:
        write(adaptor, Message("x", {"to": {"queue": red}}, offset=2), Message("x", {"to": 1}, offset=3))
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert [properties.delivery_mode for properties, _ in broker.got(red)] == [1]


def test_an_exchange_and_its_bindings(broker: Broker) -> None:
    queue, exchange = broker.queue(), f"{broker.name}-x"
    broker.channel.exchange_declare(exchange, "topic", auto_delete=True)
    broker.channel.queue_bind(queue, exchange, "shop.*")
    adaptor = rabbitmq(broker.uri, exchange=exchange)
    assert adaptor.check("sink", Namespaces()) == [f"exchange {exchange} is there"]
    write(adaptor, Message("shop.orders", {"n": 1}, offset=0))
    assert len(broker.got(queue)) == 1


def test_a_message_that_no_queue_gets_is_refused_and_those_before_it_are_there(broker: Broker) -> None:
    queue = broker.queue()
    messages = [Message(queue if n != 3 else f"{queue}-none", {"n": n}, offset=n) for n in range(6)]
    with pytest.raises(Rejected, match="No queue would get it") as refused:
        write(rabbitmq(broker.uri), *messages)
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert [properties.headers["offset"] for properties, _ in broker.got(queue)][:3] == [0, 1, 2]


def test_a_broker_that_does_not_take_a_message_is_no_fault_of_it(broker: Broker) -> None:
    queue = broker.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    with pytest.raises(Unreachable, match="could not take a message"):
        write(rabbitmq(broker.uri), *[Message(queue, {"n": n}, offset=n) for n in range(5)])


def test_an_exchange_that_is_not_there(broker: Broker) -> None:
    adaptor = rabbitmq(broker.uri, exchange="no-such-exchange")
    with pytest.raises(NotFound, match="no-such-exchange"):
        adaptor.check("sink", Namespaces())
    with pytest.raises(Unreachable, match="no-such-exchange"):
        write(adaptor, Message("x", {}, offset=0))


def test_a_writer_whose_channel_has_ended_takes_nothing_more(broker: Broker) -> None:
    queue, exchange = broker.queue(), f"{broker.name}-gone"
    broker.channel.exchange_declare(exchange, "topic")
    broker.channel.queue_bind(queue, exchange, "#")
    writer = rabbitmq(broker.uri, exchange=exchange).writer(part())
    writer.write(Batch(start=0, end=1, messages=[Message("x", {"n": 0}, offset=0)]))
    broker.channel.exchange_delete(exchange)
    for offset in (1, 2):  # the broker ends the channel at the first; the second is not sent at all
        with pytest.raises(Unreachable, match="no exchange"):
            writer.write(Batch(start=offset, end=offset + 1, messages=[Message("x", {"n": offset}, offset=offset)]))
    writer.close()
    assert [properties.headers["offset"] for properties, _ in broker.got(queue)] == [0]


def test_many_batches_on_one_writer_arrive_in_order(broker: Broker) -> None:
    queue = broker.queue()
    writer = rabbitmq(broker.uri).writer(part())
    for start in range(0, 3000, 1000):
        writer.write(
            Batch(start=start, end=start + 1000, messages=[Message(queue, {"n": n}, offset=n) for n in range(start, start + 1000)])
        )
    writer.close()
    assert [message.data["n"] for message in followed(rabbitmq(broker.uri), queue, 3000)] == list(range(3000))
    assert broker.waiting(queue) == 0


# -- the source ---------------------------------------------------------------------------------------------


def test_messages_are_let_go_of_only_when_more_is_asked_for(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"n":1}', b'{"n":2}')
    adaptor = rabbitmq(broker.uri, queues=queue)
    pieces = adaptor.follow(None, Namespaces(), lambda: False)
    found: list[Message] = []
    while len(found) < 2:
        found += next(pieces).messages  # the second one may come in a piece of its own: then the first is let go of
    pieces.close()  # as a run that dies before the last piece is durable
    again = followed(adaptor, ".*", 1)
    assert again
    assert again[-1].data == {"n": 2}
    assert broker.waiting(queue) == 0


def test_what_was_written_is_read_as_it_was(broker: Broker) -> None:
    queue, other = broker.queue(), broker.queue("-b")
    messages = [Message(queue, {"_id": 1, "n": 2**60}, offset=0, timestamp=9_000), Message(queue, {"_id": 1}, Op.DELETE, offset=1)]
    write(rabbitmq(broker.uri), *messages, Message(other, {"_id": 2}, offset=2))
    found = followed(rabbitmq(broker.uri, queues=[queue, other]), ".*", 3)
    assert {(one.namespace, one.op, one.timestamp, str(one.data)) for one in found} == {
        (queue, Op.INSERT, 9_000, str({"_id": 1, "n": 2**60})),
        (queue, Op.DELETE, 0, str({"_id": 1})),
        (other, Op.INSERT, 0, str({"_id": 2})),
    }


def test_a_body_that_is_no_document_is_kept_and_marked(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"n":1}', b"no json \xff")
    broker.put(queue, b"[1]", message_id="m-7")
    found: list[Message] = []
    bad: dict[str, str] = {}
    for piece in rabbitmq(broker.uri, queues=queue).follow(None, Namespaces(), lambda: len(found) == 3):
        bad |= {piece.messages[index].data["body"]: why for index, why in piece.bad.items()}
        found.extend(piece.messages)
    assert set(bad) == {"no json \\xff", "[1]"}
    assert bad["[1]"].startswith(f"Queue {queue}, message m-7: This is no JSON object")
    assert bad["no json \\xff"].startswith(f"Queue {queue}, delivery 2 of this run: ")
    assert broker.waiting(queue) == 0  # kept in the log: it need not stay in the queue


def test_following_is_quiet_only_when_the_queue_is_empty(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, *[b'{"n":1}'] * 300)
    sizes = []
    for piece in rabbitmq(broker.uri, queues=queue, prefetch=7).follow(None, Namespaces(), lambda: False):
        sizes.append(len(piece.messages))
        if not piece.messages:
            break
    assert sum(sizes) == 300


def test_an_idle_queue_gives_empty_pieces(broker: Broker) -> None:
    queue = broker.queue()
    pieces = rabbitmq(broker.uri, queues=queue).follow(None, Namespaces(), lambda: False)
    assert [len(next(pieces).messages) for _ in range(2)] == [0, 0]
    pieces.close()


def test_a_queue_that_is_deleted_or_never_was(broker: Broker) -> None:
    queue = broker.queue()
    pieces = rabbitmq(broker.uri, queues=queue).follow(None, Namespaces(), lambda: False)
    next(pieces)
    broker.channel.queue_delete(queue)
    with pytest.raises(NotFound, match="was deleted"):
        for _ in range(100):
            next(pieces)
    for role in (
        lambda a: list(a.follow(None, Namespaces("gone-away"), lambda: True)),
        lambda a: a.check("source", Namespaces("gone-away")),
    ):
        with pytest.raises(NotFound, match="gone-away"):
            role(rabbitmq(broker.uri))


# -- the connection -----------------------------------------------------------------------------------------


def test_who_may_not_come_in_is_told_so_without_the_password(broker: Broker) -> None:
    for uri in (broker.uri.replace("headwater:headwater", "headwater:hidden"), broker.uri + "nowhere"):
        with pytest.raises(Denied) as problem:
            rabbitmq(uri).check("sink", Namespaces())
        assert "hidden" not in str(problem.value)
        with pytest.raises(Denied):
            rabbitmq(uri).writer(part())


def test_a_broker_that_dies_and_comes_back(private_servers: PrivateServers) -> None:
    running = private_servers.up("rabbitmq")
    broker = Broker(running.rabbitmq)
    queue = broker.queue()
    adaptor = rabbitmq(running.rabbitmq)
    writer = adaptor.writer(part())
    writer.write(Batch(start=0, end=500, messages=[Message(queue, {"n": n}, offset=n) for n in range(500)]))
    # Which queues there are, a broker writes down a little later than what is in them, in order, and in pieces: with a later queue's name
    # in its log, all of this one stands there.
    later = broker.queue("-later").encode()
    files = (one for _ in polling(30) for one in private_servers.run.rglob("data/*/*") if one.is_file() and later in one.read_bytes())
    assert next(files, None)
    running.kill("rabbitmq-1")
    with pytest.raises(Unreachable) as problem:
        writer.write(Batch(start=500, end=501, messages=[Message(queue, {"n": 500}, offset=500)]))
    assert "headwater:headwater" not in str(problem.value)
    writer.close()
    with pytest.raises(Unreachable):
        adaptor.writer(part())
    running.restart("rabbitmq-1")
    assert [message.data["n"] for message in followed(adaptor, queue, 500)] == list(range(500))  # confirmed, so they survive


def test_options_that_cannot_be() -> None:
    for wrong in ({"delivery_mode": "twice"}, {"prefetch": 0}, {"key_in_field": True}, {"routing": "x"}):
        with pytest.raises(BadConfig):
            rabbitmq("amqp://h/", **wrong)
    for uri in ("http://h/", "amqp://", "nonsense"):
        with pytest.raises(BadConfig, match="no address"):
            rabbitmq(uri).check("sink", Namespaces())
    with pytest.raises(BadConfig, match="No queue is named"):
        rabbitmq("amqp://h/").queues_for(Namespaces())
    assert rabbitmq("amqp://h/").queues_for(Namespaces(r"^a\.b-c$")) == ["a.b-c"]


# -- in a pipeline ------------------------------------------------------------------------------------------


def test_through_a_queue_from_file_to_file(broker: Broker, tmp_path: Path) -> None:
    """More changes than are given to one task: shares of them go to one file, and none is lost."""
    queue = broker.queue()
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n}}}\n' for n in range(6000)))
    there, back = Pipeline("there"), Pipeline("back")
    there.source("in", file(str(tmp_path / "in.jsonl"))).save("queue", rabbitmq(broker.uri, routing_key=queue))
    back.source("queue", rabbitmq(broker.uri, queues=queue)).save("out", file(str(tmp_path / "out.jsonl")))
    settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never", master="local[2]"))
    with EmbeddedLog(tmp_path / "data") as log:
        for pipeline in (there, back):
            assert Run(pipeline, log, settings).go().state == "done"
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["_id"] for line in lines) == list(range(6000))
    assert broker.waiting(queue) == 0


# -- what nobody may lose -----------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["skip", "noop", "command", "NOOP"])
def test_a_header_of_somebody_else_s_makes_no_message_vanish(broker: Broker, said: str) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"_id":1}', headers={"op": said})
    assert [message.op for message in followed(rabbitmq(broker.uri), queue, 1)] == [Op.INSERT]


def test_a_message_that_no_record_holds_stays_in_the_queue(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"_id":1}', b'{"_id":2,"x":"%s"}' % (b"x" * LONGEST), b'{"_id":3}')
    pieces = rabbitmq(broker.uri, queues=queue).follow(None, Namespaces(), lambda: False)
    assert [message.data for piece in (next(pieces),) for message in piece.messages] == [{"_id": 1}]
    with pytest.raises(TooLarge, match=rf"queue {queue} .* stays in the queue"):
        while not next(pieces).messages:  # a large message takes its time to arrive; pieces without messages come meanwhile
            pass
    assert sorted(body[:9] for _, body in broker.got(queue)) == [b'{"_id":2,', b'{"_id":3}']  # the first one is let go of


def test_a_time_that_no_record_holds_is_left_out(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"_id":1}', timestamp=2**63)
    assert [message.timestamp for message in followed(rabbitmq(broker.uri), queue, 1)] == [0]
    write(rabbitmq(broker.uri), Message(queue, {"_id": 1}, timestamp=-5_000, offset=0))
    assert [properties.timestamp for properties, _ in broker.got(queue)] == [None]


def test_a_queue_that_is_made_anew_is_read_on(broker: Broker) -> None:
    queue = broker.queue()
    pieces = rabbitmq(broker.uri, queues=queue).follow(None, Namespaces(), lambda: False)
    next(pieces)
    broker.channel.queue_delete(queue)
    broker.queue()
    with pytest.raises(Unreachable, match="has cancelled the consumer of"):  # which is waited for; a queue that is gone is not
        for _ in range(100):
            next(pieces)


def test_a_replay_is_not_taken_for_the_first_sending(broker: Broker) -> None:
    queue = broker.queue()
    for where in (part(), part(attempt="x"), part(again=True, attempt="y")):
        write(rabbitmq(broker.uri), Message(queue, {"_id": 1}, offset=7), where=where)
    assert [properties.message_id for properties, _ in broker.got(queue)] == ["p/s/7", "p/s/7", "p/s/7/y"]


def test_an_exchange_that_one_namespace_lacks_is_that_message_s_fault(broker: Broker) -> None:
    queue = broker.queue()
    adaptor = rabbitmq(broker.uri, exchange="{namespace}", routing_key=queue)
    messages = [Message("amq.direct", {"_id": 0}, offset=0), Message("no-such", {"_id": 1}, offset=1)]
    broker.channel.queue_bind(queue, "amq.direct", queue)
    with pytest.raises(Rejected, match="no-such") as no:
        write(adaptor, *messages)
    assert (no.value.offset, no.value.before_taken) == (-1, False)  # which one of a batch it was, one at a time shows
    with pytest.raises(Rejected, match="no-such") as no:
        write(adaptor, messages[1])
    assert no.value.offset == 1


@pytest.mark.parametrize(("options", "read"), [({}, "[Decimal('1.25'), Decimal('1.20'), 7]"), ({"decimals": "float"}, "[1.25, 1.2, 7]")])
def test_numbers_with_a_point_are_of_one_type(broker: Broker, options: dict[str, Any], read: str) -> None:
    queue = broker.queue()
    broker.put(queue, b'{"_id":1,"n":[1.25,1.20,7]}')
    pieces = rabbitmq(broker.uri, queues=[queue], **options).follow(None, Namespaces(), lambda: False)
    [message] = next(piece.messages for piece in pieces if piece.messages)
    pieces.close()  # type: ignore[attr-defined]
    assert repr(message.data["n"]) == read
