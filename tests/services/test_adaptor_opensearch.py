"""The OpenSearch adaptor against a real OpenSearch: writing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from opensearch_ground import held, message, numbered, opensearch_at, own_prefixes, part, write
from tools.services.private import PrivateServers

from headwater.adaptors.opensearch.adaptor import OpenSearch
from headwater.adaptors.opensearch.client import SearchClient
from headwater.adaptors.opensearch.sink import OpenSearchWriter
from headwater.core.errors import Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch
from headwater.testing.adaptor_contract import SinkContract


@pytest.fixture(scope="module")
def prefixes(opensearch: str) -> Iterator[Iterator[str]]:
    with own_prefixes(opensearch) as made:
        yield made


@pytest.fixture
def adaptor(opensearch: str, prefixes: Iterator[str]) -> OpenSearch:
    return opensearch_at(opensearch, index=f"{next(prefixes)}-{{namespace}}")


class TestSink(SinkContract):
    @pytest.fixture
    def sink(self, adaptor: OpenSearch) -> OpenSearch:
        return adaptor


def test_documents_are_inserted_changed_and_deleted(adaptor: OpenSearch) -> None:
    write(adaptor, message(0, _id="a", n=1), message(1, _id="b", n=2), message(2, namespace="Other things", _id=7, n=3))
    write(adaptor, message(3, op=Op.UPDATE, _id="a", n=10), message(4, op=Op.DELETE, _id="b"), message(5, op=Op.DELETE, _id="never was"))
    assert held(adaptor) == {"a": {"n": 10}}
    assert held(adaptor, "Other things") == {"7": {"n": 3}}
    assert held(adaptor, "nothing") == {}


def test_numbers_and_dates_arrive_as_they_were(adaptor: OpenSearch) -> None:
    data = {
        "price": Decimal("1.10"),
        "long": 2**62 + 1,
        "at": {"$date": "2020-01-02T03:04:05.678Z"},
        "deep": {"count": {"$numberLong": "7"}},
    }
    write(adaptor, message(0, _id="a", **data))
    assert held(adaptor) == {"a": {"price": Decimal("1.10"), "long": 2**62 + 1, "at": "2020-01-02T03:04:05.678Z", "deep": {"count": 7}}}


def test_a_refused_document_is_named_by_its_offset_and_all_before_it_are_taken(adaptor: OpenSearch) -> None:
    messages = numbered(20)
    messages[14].data["n"] = "not a number"
    with pytest.raises(Rejected, match="failed to parse field") as refused:
        write(adaptor, *messages)
    assert (refused.value.offset, refused.value.before_taken) == (14, True)
    assert {f"o{n}" for n in range(14)} <= held(adaptor).keys()
    assert "o14" not in held(adaptor)


@pytest.mark.parametrize("body", ["1KiB", "8MiB"])
def test_the_offset_is_exact_however_many_requests_a_batch_takes(adaptor: OpenSearch, body: str) -> None:
    small = opensearch_at(str(adaptor.uri), index=adaptor.index, body=body)
    messages = [message(offset, _id=f"o{offset}", n=offset, text="x" * 300) for offset in range(100, 130)]
    messages[17].data["n"] = messages[23].data["n"] = "wrong"
    with pytest.raises(Rejected) as refused:
        write(small, *messages)
    assert (refused.value.offset, refused.value.before_taken) == (117, True)
    assert {f"o{n}" for n in range(100, 117)} <= held(adaptor).keys()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (message(3, _id="x" * 513), "513 bytes"),
        (message(3, op=Op.DELETE, n=1), "names no document"),
        (message(3, op=Op.COMMAND, drop="orders"), "has no commands"),
        (message(3, namespace="..", _id="a"), "No index"),
    ],
)
def test_a_message_that_can_be_no_action_comes_after_those_before_it(adaptor: OpenSearch, bad: Message, said: str) -> None:
    plain = opensearch_at(str(adaptor.uri), index=adaptor.index if bad.namespace == "orders" else "{namespace}")
    before = [
        message(n, namespace=f"{adaptor.index[:11]}-orders" if plain.index == "{namespace}" else "orders", _id=f"o{n}") for n in range(3)
    ]
    with pytest.raises(Rejected, match=said) as refused:
        write(plain, *before, bad)
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert held(adaptor).keys() == {"o0", "o1", "o2"}


def test_sent_again_nothing_is_there_twice(adaptor: OpenSearch) -> None:
    without_ids = [message(offset, n=offset) for offset in range(20, 25)]
    for _ in range(3):
        write(adaptor, *numbered(10), message(10, op=Op.DELETE, _id="o3"))
        write(adaptor, *without_ids)
    assert held(adaptor).keys() == {f"o{n}" for n in range(10) if n != 3} | {f"p-{n}" for n in range(20, 25)}


def test_a_late_duplicate_does_not_overwrite_what_is_newer(adaptor: OpenSearch) -> None:
    write(adaptor, message(10, op=Op.UPDATE, _id="a", n=10), message(11, op=Op.DELETE, _id="b"))
    write(adaptor, message(2, _id="a", n=2), message(3, op=Op.DELETE, _id="a"), message(4, _id="b", n=4), message(5, _id="c", n=5))
    assert held(adaptor) == {"a": {"n": 10}, "c": {"n": 5}}


def test_a_log_made_anew_outranks_the_one_before_and_whatever_else_was_there(adaptor: OpenSearch) -> None:
    index = adaptor.index_for("orders")
    with adaptor.connect() as client:
        for _ in range(3):
            client.ask("PUT", f"/{index}/_doc/a", body={"n": 0})
        client.ask("PUT", f"/{index}/_mapping", body={"_meta": {"theirs": 1}})
    for log, offset in (("p#first", 500), ("p#second", 0)):
        write(adaptor, message(offset, _id="a", n=offset), where=part(pipeline=log))
        assert held(adaptor) == {"a": {"n": offset}}
    write(adaptor, message(501, _id="a", n=501), where=part(pipeline="p#first"))  # an orphan of the old log
    assert held(adaptor) == {"a": {"n": 0}}
    with adaptor.connect() as client:
        meta = client.get(f"/{index}/_mapping")[index]["mappings"]["_meta"]
    assert meta == {"theirs": 1, "headwater": {"p/s": ["first", "second"]}}


def test_many_writers_at_once_agree_on_a_new_index(adaptor: OpenSearch) -> None:
    def one(number: int) -> None:
        write(adaptor, message(number, _id="a", n=number), where=part(pipeline="p#first"))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one, range(12)))
    assert held(adaptor) == {"a": {"n": 11}}


def test_an_edited_message_replaces_what_its_offset_wrote(adaptor: OpenSearch) -> None:
    write(adaptor, message(0, _id="a", n=1))
    write(adaptor, message(0, _id="a", n=2))
    assert held(adaptor) == {"a": {"n": 2}}


def test_an_operator_s_replay_is_written_whatever_is_there_and_later_messages_still_hold(adaptor: OpenSearch) -> None:
    write(adaptor, *numbered(4))
    with adaptor.connect() as client:
        for _ in range(2):  # somebody has changed two documents by hand, which raises their versions, and removed one
            client.ask("PUT", f"/{adaptor.index_for('orders')}/_doc/o1", body={"n": -1})
        client.ask("DELETE", f"/{adaptor.index_for('orders')}/_doc/o2")
    write(adaptor, *numbered(4))
    assert held(adaptor) == {"o0": {"n": 0}, "o1": {"n": -1}, "o3": {"n": 3}}
    write(adaptor, *numbered(4), where=part(again=True))
    assert held(adaptor) == {f"o{n}": {"n": n} for n in range(4)}
    write(adaptor, message(10, op=Op.UPDATE, _id="o1", n=10), message(11, op=Op.DELETE, _id="o2"))
    assert held(adaptor) == {"o0": {"n": 0}, "o1": {"n": 10}, "o3": {"n": 3}}


def test_a_replay_keeps_the_order_of_a_document_s_messages(adaptor: OpenSearch) -> None:
    messages = [message(0, _id="a", n=0), message(1, op=Op.DELETE, _id="a"), message(2, _id="b", n=2), message(3, _id="b", n=3)]
    write(adaptor, *messages)
    write(adaptor, *messages, where=part(again=True))
    assert held(adaptor) == {"b": {"n": 3}}


def test_a_replay_stops_at_its_bad_message_too(adaptor: OpenSearch) -> None:
    write(adaptor, message(50, _id="o0", n=50), message(51, _id="o3", n=51))
    messages = numbered(4)
    messages[2].data["n"] = "wrong"
    with pytest.raises(Rejected) as refused:
        write(adaptor, *messages, where=part(again=True))
    assert (refused.value.offset, refused.value.before_taken) == (2, True)
    assert held(adaptor)["o0"] == {"n": 0}


def test_without_versions_the_last_one_sent_holds(adaptor: OpenSearch) -> None:
    careless = opensearch_at(str(adaptor.uri), index=adaptor.index, versions=False)
    write(careless, message(10, _id="a", n=10))
    write(careless, message(2, _id="a", n=2), message(3, op=Op.DELETE, _id="b"))
    assert held(adaptor) == {"a": {"n": 2}}


def test_documents_keep_their_id_fields_where_the_id_is_another_than__id(adaptor: OpenSearch) -> None:
    write(adaptor, Message("orders", {"shop": "x", "nr": 1, "n": 5}, offset=0, id_fields=("shop", "nr")))
    assert list(adaptor.rows("orders")) == [{"shop": "x", "nr": 1, "n": 5}]
    with adaptor.connect() as client:
        found = client.get(f"/{adaptor.index_for('orders')}/_search")["hits"]["hits"]
    assert [one["_id"] for one in found] == ['["x",1]']


def test_a_closed_index_is_told_at_the_message_that_meets_it(adaptor: OpenSearch) -> None:
    write(adaptor, message(0, _id="a", n=1), message(1, namespace="closed", _id="a"))
    with adaptor.connect() as client:
        client.ask("POST", f"/{adaptor.index_for('closed')}/_close")
    with pytest.raises(Rejected, match="closed") as refused:
        write(adaptor, message(2, _id="b", n=1), message(3, namespace="closed", _id="b"), message(4, _id="c", n=1))
    assert (refused.value.offset, refused.value.before_taken) == (3, True)


@pytest.mark.parametrize("block", ["write", "read_only"])
def test_an_index_that_somebody_has_closed_to_writers_is_no_message_s_fault(adaptor: OpenSearch, block: str) -> None:
    write(adaptor, message(0, _id="a", n=1))
    path = f"/{adaptor.index_for('orders')}/_settings"
    with adaptor.connect() as client:
        client.ask("PUT", path, body={f"index.blocks.{block}": True})
        with pytest.raises(Unreachable, match="blocked by") as refused:
            write(adaptor, message(1, _id="b", n=2))
        assert "block" in refused.value.hint
        client.ask("PUT", path, body={f"index.blocks.{block}": False})
    write(adaptor, message(1, _id="b", n=2))
    assert held(adaptor) == {"a": {"n": 1}, "b": {"n": 2}}


class Busy(SearchClient):
    """A cluster that has no room for some items of the first requests, as a full queue answers; the rest is the real one's."""

    def __init__(self, uri: str, times: int) -> None:
        super().__init__(uri)
        self.times, self.asked = times, 0

    def ask(self, method: str, path: str, **more: Any) -> Any:
        if path != "/_bulk" or self.asked >= self.times:
            return super().ask(method, path, **more)
        self.asked += 1
        lines = more["body"].splitlines(keepends=True)
        answer = super().ask(method, path, **{**more, "body": b"".join(lines[:2])})
        error = {"type": "rejected_execution_exception", "reason": "the queue is full"}
        answer["items"] += [{"index": {"status": 429, "error": error}}] * (len(lines) // 2 - 1)
        return answer


def test_what_a_busy_cluster_has_no_room_for_is_sent_again(adaptor: OpenSearch) -> None:
    waited: list[float] = []
    writer = OpenSearchWriter(adaptor, part(), Busy(str(adaptor.uri), 3), wait=waited.append)
    try:
        writer.write(Batch(start=0, end=5, messages=numbered(5)))
    finally:
        writer.close()
    assert held(adaptor).keys() == {f"o{n}" for n in range(5)}
    assert waited == [0.05, 0.1, 0.2]


def test_a_cluster_that_stays_busy_is_a_timeout_that_names_its_seconds(adaptor: OpenSearch) -> None:
    times = iter(range(1000))
    busy = Busy(str(adaptor.uri), 1000)
    writer = OpenSearchWriter(adaptor, part(timeout=7.0), busy, clock=lambda: float(next(times)), wait=lambda _: None)
    try:
        with pytest.raises(Timeout, match=r"within 7 s: rejected_execution_exception"):
            writer.write(Batch(start=0, end=50, messages=numbered(50)))
    finally:
        writer.close()


def test_the_indices_of_a_batch_are_made_within_its_timeout(adaptor: OpenSearch) -> None:
    times = iter([0.0, 1.0, 8.0])
    writer = OpenSearchWriter(adaptor, part(timeout=7.0), adaptor.connect(), clock=lambda: next(times))
    try:
        with pytest.raises(Timeout, match="has not taken a batch within 7 s"):
            writer.write(Batch(start=0, end=2, messages=[message(0, _id="a"), message(1, namespace="clients", _id="b")]))
    finally:
        writer.close()


def test_nobody_at_the_address() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 cannot be reached") as told:
        opensearch_at("http://user:secret@127.0.0.1:1").writer(part())
    assert "secret" not in str(told.value)


def test_of_several_hosts_one_that_is_there_is_enough(adaptor: OpenSearch) -> None:
    several = opensearch_at(f"http://127.0.0.1:1,{adaptor.uri},http://127.0.0.1:2", index=adaptor.index)
    for number in range(4):  # the client begins with any of them
        write(several, message(number, _id=number))
    assert held(adaptor).keys() == {"0", "1", "2", "3"}


def test_https_where_it_is_not_spoken_is_told(adaptor: OpenSearch) -> None:
    with pytest.raises(Unreachable, match="wrong version number") as told:
        opensearch_at(str(adaptor.uri).replace("http:", "https:")).writer(part())
    assert "https" in told.value.hint


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        ({"_id": {"$oid": "0123456789abcdef01234567"}, "at": {"$date": "2020-01-01T00:00:00Z"}, "n": {"$numberLong": "5"}}, ("_id",)),
        ({"_id": 5, "n": 5, "price": Decimal("1.10"), "none": None}, ("_id",)),
        ({"id": 7, "deep": [{"a": {"$binary": {"base64": "eA==", "subType": "00"}}}]}, ("id",)),
        ({"shop": "x", "nr": {"$numberLong": "3"}, "n": 1.5}, ("shop", "nr")),
    ],
)
def test_what_is_stored_is_what_is_read_back(adaptor: OpenSearch, data: dict[str, Any], ids: tuple[str, ...]) -> None:
    write(adaptor, Message("orders", data, offset=0, id_fields=ids))
    assert list(adaptor.rows("orders")) == [adaptor.stored(data)]


# -- a server that dies -------------------------------------------------------------------------------------


def test_a_server_that_was_killed_has_what_it_took_and_takes_the_rest(private_servers: PrivateServers) -> None:
    running = private_servers.up("opensearch")
    sink = opensearch_at(running.opensearch, index="all", batch=10)
    writer = sink.writer(part())
    writer.write(Batch(start=0, end=100, messages=numbered(100)))
    reading = sink.plan(Namespaces("all"), 1).slices[0]
    copying = sink.read(reading, None)
    read = next(copying)
    running.kill("search-1")
    with pytest.raises(Unreachable):
        writer.write(Batch(start=100, end=200, messages=numbered(100, start=100)))
    writer.close()
    with pytest.raises(Unreachable):
        list(copying)
    running.restart("search-1")
    assert held(sink).keys() == {f"o{n}" for n in range(100)}
    write(sink, *numbered(110, start=90))
    assert held(sink).keys() == {f"o{n}" for n in range(200)}
    rest = [values.decode(text)["_id"] for piece in sink.read(reading, read.position) for text in piece.values]
    assert set(rest) == {f"o{n}" for n in range(10, 200)}
