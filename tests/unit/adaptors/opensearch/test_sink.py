"""What needs no server: options, names of indices, ids as text, plain JSON, and what an answer means."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from headwater.adaptors.opensearch.adaptor import OpenSearch, elasticsearch, index_name, opensearch
from headwater.adaptors.opensearch.client import SearchClient, explained
from headwater.adaptors.opensearch.owner import SearchOwnerNote
from headwater.adaptors.opensearch.sink import id_text, plain, problem
from headwater.core.errors import BadConfig, BadInput, Denied, Unavailable, Unreachable
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.env import env
from headwater.pipeline.sink_adaptor import Part


@pytest.mark.parametrize(
    ("namespace", "index"),
    [
        ("orders", "orders"),
        ("public.orders", "public.orders"),
        ("Orders", "orders"),
        ("data/My orders*.jsonl", "data-my-orders-.jsonl"),
        ("_internal", "internal"),
        ("..", None),
        ("--", None),
        ("x" * 255, "x" * 255),
        ("x" * 256, None),
    ],
)
def test_an_index_gets_a_name_that_the_server_takes(namespace: str, index: str | None) -> None:
    if index is None:
        with pytest.raises(BadInput):
            index_name(namespace)
    else:
        assert index_name(namespace) == index


def test_one_index_may_be_named_for_all_namespaces() -> None:
    assert opensearch("http://x", index="everything").index_for("a") == "everything"
    assert opensearch("http://x", index="shop-{namespace}").index_for("A") == "shop-a"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "abc"),
        (5, "5"),
        ({"$oid": "0123456789abcdef01234567"}, "0123456789abcdef01234567"),
        ({"$numberLong": "7"}, "7"),
        (["b", 2], '["b",2]'),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"$date": "2020-01-01T00:00:00.000Z"}, '{"$date":"2020-01-01T00:00:00.000Z"}'),
        (Decimal("1.10"), "1.10"),
        (True, "true"),
    ],
)
def test_an_id_as_text(value: Any, text: str) -> None:
    assert id_text(value) == text


def test_extended_json_becomes_what_people_search_for() -> None:
    data = {
        "at": {"$date": "2020-01-02T03:04:05.678Z"},
        "bytes": {"$binary": {"base64": "aGk=", "subType": "00"}},
        "count": {"$numberLong": "7"},
        "price": {"$numberDecimal": "1.10"},
        "odd": {"$numberDouble": "NaN"},
        "deep": [{"id": {"$oid": "0123456789abcdef01234567"}}, None, True, 1.5],
        "stamp": {"$timestamp": {"t": 1, "i": 2}},
    }
    assert plain(data) == {
        "at": "2020-01-02T03:04:05.678Z",
        "bytes": "aGk=",
        "count": 7,
        "price": Decimal("1.10"),
        "odd": "nan",
        "deep": [{"id": "0123456789abcdef01234567"}, None, True, 1.5],
        "stamp": {"$timestamp": {"t": 1, "i": 2}},
    }


@pytest.mark.parametrize(
    ("action", "status", "kind", "taken"),
    [
        ("index", 201, None, True),
        ("index", 200, None, True),
        ("delete", 404, None, True),
        ("index", 409, "version_conflict_engine_exception", True),
        ("index", 409, "something_else", False),
        ("index", 404, "index_not_found_exception", False),
        ("index", 400, "mapper_parsing_exception", False),
    ],
)
def test_what_counts_as_taken(action: str, status: int, kind: str | None, taken: bool) -> None:
    error = {"error": {"type": kind, "reason": "why"}} if kind else {}
    assert (problem({action: {"status": status, **error}}) is None) == taken


def test_a_busy_or_full_cluster_is_no_document_s_fault() -> None:
    busy = problem({"index": {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "queue"}}})
    assert busy is not None
    assert busy.passing
    block = {"type": "cluster_block_exception", "reason": "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage]"}
    full = problem({"index": {"status": 429, "error": block}})
    assert full is not None
    assert full.full


def test_an_error_is_told_with_its_causes() -> None:
    error = {
        "type": "a",
        "reason": "first",
        "caused_by": {"type": "b", "reason": "second"},
        "root_cause": [{"type": "a", "reason": "first"}],
    }
    assert explained(error) == "a: first; b: second"


@pytest.mark.parametrize(
    "options",
    [{"batch": 0}, {"batch": 10_001}, {"body": "1B"}, {"body": "8"}, {"index": ""}, {"index": "_"}, {"keep": "soon"}, {"indx": "x"}],
)
def test_an_option_without_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        opensearch("http://x", **options)


def test_an_option_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(BadConfig, match="Did you mean index"):
        elasticsearch("http://x", indx="a")  # type: ignore[call-arg]


def test_it_travels_and_never_shows_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_URI", "http://user:secret@nowhere.invalid:9200")
    adaptor = pickle.loads(pickle.dumps(opensearch(env("SEARCH_URI"))))
    assert isinstance(adaptor, OpenSearch)
    assert "secret" not in f"{adaptor} {adaptor!r}"
    with adaptor.connect() as client:
        assert client.where == "nowhere.invalid:9200"


@pytest.mark.parametrize(
    "options",
    [
        {"index": "a*b"},
        {"index": "shop-{namspace}"},
        {"body": 5},
        {"body": "8"},
        {"keep": "0s"},
        {"keep": "48h"},
        {"uri": 5},
    ],
)
def test_an_option_without_sense_is_told_with_one_that_has(options: dict[str, Any]) -> None:
    with pytest.raises(BadConfig) as told:
        opensearch(**{"uri": "http://x", **options})
    assert told.value.hint.startswith("Give ")


@pytest.mark.parametrize("uri", ["", "http://", "http://x:port", "ftp://x:9200", "http://x,ftp://y"])
def test_an_address_that_is_none(uri: str) -> None:
    with pytest.raises(BadConfig):
        SearchClient(uri)


@contextmanager
def answering(status: int) -> Iterator[str]:
    """The address of a server that answers everything so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_is_too_busy_is_waited_for_like_one_that_is_away(status: int) -> None:
    with answering(status) as uri, SearchClient(uri) as client:
        with pytest.raises(Unreachable, match=rf"cannot take this now \({status}\)"):
            client.get("/")
        with pytest.raises(Unavailable) as told:
            client.ask("GET", "/", patient=True)
        assert type(told.value) is Unavailable


@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (
            403,
            "may not keep the note of who owns sink s, ",
            "Grant the user get, index, create_index and .* on the index .headwater-owners",
        ),
        (401, "refuses this user", "Look at user and password"),
    ],
)
def test_a_right_that_the_note_of_the_owner_lacks_is_named(status: int, said: str, hint: str) -> None:
    mine = SinkClaim(pipeline="p#g", sink="s", epoch=1)
    with answering(status) as uri:
        sink = opensearch(uri)
        part = Part(pipeline="p#g", sink="s", start=0, end=1, epoch=1)
        for use in (lambda: sink.owner("p#g", "s"), lambda: sink.claim(mine), lambda: sink.writer(part)):
            with pytest.raises(Denied, match=said) as told:
                use()
            assert re.match(hint, told.value.hint)


def test_sinks_of_one_name_with_other_indices_have_notes_of_their_own() -> None:
    def key(index: str) -> str:
        with SearchClient("http://x") as client:
            return SearchOwnerNote(client, "p#g", "s", opensearch("http://x", index=index).index_for("{namespace}")).key

    assert key("prod-{namespace}") == key("Prod-{namespace}") == "p/s/prod-{namespace}"
    assert key("test-{namespace}") != key("prod-{namespace}")
