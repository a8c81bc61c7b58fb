"""The log over HTTP, as any HTTP client sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from headwater import parts
from headwater.log.operations import LOG
from headwater.server.own import OWN
from headwater.server.spawned import SpawnedServer
from headwater.wire.operation import Operation
from headwater.wire.request import shape_of

EVENTS = {"Accept": "text/event-stream"}
LINES = {"Content-Type": "application/x-ndjson"}
BODIES = {
    "server_ticket": b'{"path": "/log/none/0/records"}',
    "pipeline_ack": b'{"offset": 0, "why": "w"}',
    "pipeline_replay": b'{"first": 0, "last": 0}',
    "wal_write": b'{"payloads": ["a"]}',
    "wal_mark_delete_up_to": b'{"sequence": 1}',
    "queue_put": b'{"key": "k"}',
    "journal_append": b'{"events": [{"payload": 1}]}',
    "journal_append_many": b'{"id": "a", "events": [{"payload": 1}]}\n',
    "journal_dead_quarantine": b'{"why": "w"}',
    "journal_dead_drop": b'{"why": "w"}',
    "journal_erase": b'{"why": "w"}',
    "documents_batch": b'{"path": "none", "method": "delete"}\n',
    "journal_import_lines": b'{"format": "headwater-journals/1", "topic": "journal-none"}\n',
}
BULK = ("journal_append_many", "journal_import_lines", "documents_batch")  # their body is NDJSON
QUERIES = {"journal_delete": {"to": "1"}, "journal_snapshots_delete": {"seq_nr": "1"}}
STATUSES = {  # where it is neither 404 for what is not there nor 200
    "wal_regions_of": 200,  # a namespace is what its regions say
    "documents_content_patch": 400,  # no body
    "documents_content_post": 405,  # a document is no collection
    "documents_index_list": 200,  # an index may be there before its collection
    "documents_index_post": 201,
    "documents_feed": 400,  # from which revision on?
    "documents_feed_lines": 400,
    "documents_restore": 400,  # which revision?
    "documents_trail": 200,  # of what may come
    "documents_verify": 202,
    "server_ticket": 201,
    "documents_rebuild": 202,
}
EVERY: list[Operation[Any, Any]] = [*OWN, *parts.operations()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpawnedServer]:
    with SpawnedServer(tmp_path_factory.mktemp("log")) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: SpawnedServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        yield client


@pytest.fixture
def topic(http: httpx2.Client, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.split("[")[0]
    assert http.put(f"/log/{name}").status_code == 201
    yield name
    http.delete(f"/log/{name}")


def values(response: httpx2.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    return [item["value"] for item in response.json()["items"]]


def test_a_topic_from_creation_to_deletion(http: httpx2.Client) -> None:
    body = b'{"partitions": 2, "settings": {"segment": "1MiB", "period": "month", "disposal": "truncate"}}'
    created = http.put("/log/orders", content=body)
    assert created.status_code == 201
    assert created.json()["settings"] == {"segment": "1MiB", "period": "month", "max_record": "16MiB", "disposal": "truncate"}
    refused = http.put("/log/orders", content=body.replace(b"truncate", b"reset"))
    assert (refused.status_code, refused.json()["code"]) == (409, "already-exists")
    unfit = http.put("/log/others", content=body.replace(b"truncate", b"burn"))
    assert (unfit.status_code, unfit.json()["code"]) == (400, "bad-input")
    again = http.put("/log/orders", content=body)
    assert (again.status_code, again.json()) == (200, created.json())
    assert [topic["name"] for topic in http.get("/log").json()["items"]] == ["orders"]
    described = http.get("/log/orders").json()
    assert described["bounds"] == [{"partition": 0, "start": 0, "end": 0}, {"partition": 1, "start": 0, "end": 0}]
    assert http.delete("/log/orders").status_code == 204
    assert http.get("/log/orders").status_code == 404


def test_topics_come_in_pages_with_a_link(http: httpx2.Client) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        http.put(f"/log/{name}")
    seen, url = [], "/log?limit=2"
    while url:
        page = http.get(url)
        seen += [topic["name"] for topic in page.json()["items"]]
        assert ("next" in page.links) == (page.json()["next"] is not None)
        url = page.links["next"]["url"] if page.links else ""
    assert seen == names
    for name in names:
        http.delete(f"/log/{name}")


def test_records_of_every_kind_come_back(http: httpx2.Client, topic: str) -> None:
    sent = (
        b'{"key": "a", "value": {"price": 1.10}, "headers": {"from": "test"}, '
        b'"timestamp": "2026-01-31T12:00:00.000Z", "mode": "sync", "op": 3}\n'
        b'{"value": "caf\xc3\xa9"}\n{"key": {"$binary": "/w=="}, "value": {"$binary": "AP8="}}\n{"key": "gone"}\n'
    )
    appended = http.post(f"/log/{topic}/0/records", content=sent, headers=LINES)
    assert (appended.status_code, appended.json()) == (201, {"offsets": [0, 1, 2, 3]})
    items = http.get(f"/log/{topic}/0/records", params={"decode": "json"}).text
    assert '"value":{"price": 1.10}' in items, "JSON goes out as it came in"
    first, second, third, fourth = http.get(f"/log/{topic}/0/records").json()["items"]
    assert first == {
        "offset": 0,
        "timestamp": "2026-01-31T12:00:00.000Z",
        "key": "a",
        "value": '{"price": 1.10}',
        "headers": [["from", "test"]],
        "mode": "sync",
        "op": 3,
    }
    assert (second["key"], second["value"]) == (None, "café")
    assert (third["key"], third["value"]) == ({"$binary": "/w=="}, {"$binary": "AP8="})
    assert (fourth["key"], fourth["value"]) == ("gone", None)
    assert http.get(f"/log/{topic}/0").json() == {"partition": 0, "start": 0, "end": 4}


def test_records_come_in_pages_with_a_link(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(25)])
    seen, url = [], f"/log/{topic}/0/records?limit=10&decode=json&to=23"
    pages = 0
    while url:
        page = http.get(url)
        seen += values(page)
        pages += 1
        url = page.links["next"]["url"] if page.links else ""
    assert (seen, pages) == (list(range(23)), 3)
    assert http.get(f"/log/{topic}/0/records?from=25").json() == {"items": [], "next": None}
    assert http.get(f"/log/{topic}/0/records?from=5&to=5").json() == {"items": [], "next": None}


def test_records_come_as_lines_without_pages(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(2500)])
    lines = {"Accept": "application/x-ndjson"}
    whole = http.get(f"/log/{topic}/0/records?decode=json", headers=lines)
    assert whole.headers["content-type"] == "application/x-ndjson"
    assert [httpx2.Response(200, content=line).json()["value"] for line in whole.text.splitlines()] == list(range(2500))
    part = http.get(f"/log/{topic}/0/records?decode=json&from=1200&to=2300&limit=1050", headers=lines)
    assert [httpx2.Response(200, content=line).json()["value"] for line in part.text.splitlines()] == list(range(1200, 2250))


def test_lines_from_beyond_the_end_are_refused_as_a_page_is(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(3)])
    for accept in ("application/json", "application/x-ndjson"):
        assert http.get(f"/log/{topic}/0/records?from=3", headers={"Accept": accept}).status_code == 200
        beyond = http.get(f"/log/{topic}/0/records?from=4", headers={"Accept": accept})
        assert (beyond.status_code, beyond.json()["code"]) == (422, "bad-bounds")


def test_values_over_several_lines_stay_one_event_and_one_line(http: httpx2.Client, topic: str) -> None:
    http.post(
        f"/log/{topic}/0/records",
        content=b'{"value": {\n "eur": 50,\n\n "of": [1,\r\n 2]\n}}',
        headers={"Content-Type": "application/json"},
    )
    value = {"eur": 50, "of": [1, 2]}
    lines = http.get(f"/log/{topic}/0/records?decode=json", headers={"Accept": "application/x-ndjson"})
    assert [msgspec.json.decode(line)["value"] for line in lines.text.splitlines()] == [value]
    with Stream(http, f"/log/{topic}/0/records?decode=json&from=0") as events:
        assert msgspec.json.decode(next(events).data)["value"] == value


def test_offsets_are_found_by_time(http: httpx2.Client, topic: str) -> None:
    times = ["2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z"]
    http.post(f"/log/{topic}/0/records", json=[{"value": time, "timestamp": time} for time in times])
    assert http.get(f"/log/{topic}/0/offset", params={"at": "2026-01-01T12:00:00Z"}).json() == {"offset": 1}
    assert http.get(f"/log/{topic}/0/offset", params={"at": "2027-01-01T00:00:00Z"}).json() == {"offset": 3}


def test_letting_go_of_the_oldest_records(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(5)])
    assert http.delete(f"/log/{topic}/0/records", params={"before": 3}).json() == {"start": 3}
    assert http.delete(f"/log/{topic}/0/records", params={"before": 1}).json() == {"start": 3}
    assert values(http.get(f"/log/{topic}/0/records", params={"decode": "json"})) == [3, 4]


def test_compacting_keeps_the_last_record_of_each_key(http: httpx2.Client) -> None:
    http.put("/log/compacted", content=b'{"settings": {"segment": "1B"}}')  # every batch closes the segment before it
    for number in range(6):
        http.post("/log/compacted/0/records", json={"key": f"k{number % 2}", "value": number})
    did = http.post("/log/compacted/0/compact").json()
    assert did["records_before"] > did["records_after"]
    shown = values(http.get("/log/compacted/0/records", params={"decode": "json"}))
    assert shown[-2:] == [4, 5]
    assert len(shown) < 6
    http.delete("/log/compacted")


class Stream:
    """A client of server-sent events that reads one after the other."""

    def __init__(self, http: httpx2.Client, url: str, **headers: str) -> None:
        self._context = http.stream("GET", url, headers={**EVENTS, **headers})

    def __enter__(self) -> Iterator[httpx2.ServerSentEvent]:
        response = self._context.__enter__()
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return (event for event in httpx2.EventSource(response) if event.data)

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)


def test_a_stream_catches_up_and_goes_on(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": 0}, {"value": 1}])
    with Stream(http, f"/log/{topic}/0/records?from=0&decode=json") as events:
        assert [next(events).id for _ in range(2)] == ["0", "1"]
        http.post(f"/log/{topic}/0/records", json={"value": "new"})
        event = next(events)
        assert (event.id, event.event) == ("2", "message")
        shown: Any = event.json()
        assert shown["offset"] == 2


def test_a_stream_without_a_start_shows_what_comes(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": 0}, {"value": 1}])
    with Stream(http, f"/log/{topic}/0/records") as events:
        http.post(f"/log/{topic}/0/records", json={"value": "new"})
        assert next(events).id == "2"


@pytest.mark.parametrize(("query", "headers"), [("?after=1", {}), ("", {"Last-Event-ID": "1"}), ("?after=0", {"Last-Event-ID": "1"})])
def test_a_stream_resumes_after_the_last_event(http: httpx2.Client, topic: str, query: str, headers: dict[str, str]) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(4)])
    with Stream(http, f"/log/{topic}/0/records{query}", **headers) as events:
        assert [next(events).id for _ in range(2)] == ["2", "3"]


@pytest.mark.parametrize(("query", "headers"), [("", {"Last-Event-ID": "0"}), ("?after=0", {})])
def test_a_stream_whose_place_is_gone_says_so_and_begins_at_the_start(
    http: httpx2.Client, topic: str, query: str, headers: dict[str, str]
) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(4)])
    http.delete(f"/log/{topic}/0/records", params={"before": 2})
    with Stream(http, f"/log/{topic}/0/records{query}", **headers) as events:
        reset = next(events)
        assert (reset.event, reset.json()) == ("reset", {"start": 2})
        assert [next(events).id for _ in range(2)] == ["2", "3"]


@pytest.mark.parametrize(("query", "headers"), [("", {"Last-Event-ID": "99"}), ("?after=99", {})])
def test_a_stream_from_beyond_the_end_says_so_and_goes_on_at_the_end(
    http: httpx2.Client, topic: str, query: str, headers: dict[str, str]
) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(4)])
    with Stream(http, f"/log/{topic}/0/records{query}", **headers) as events:
        reset = next(events)
        assert (reset.event, reset.json()) == ("reset", {"start": 4})
        http.post(f"/log/{topic}/0/records", json={"value": "new"})
        assert next(events).id == "4"


def test_whole_numbers_may_be_written_with_a_point(http: httpx2.Client, topic: str) -> None:
    sent = b'[{"value": 1, "timestamp": 47904.0, "mode": 1.0, "op": 3.0}, {"value": 2, "timestamp": null}]'
    assert http.post(f"/log/{topic}/0.0/records", content=sent).json() == {"offsets": [0, 1]}
    [first] = http.get(f"/log/{topic}/0/records?from=0.0&limit=1.0").json()["items"]
    assert (first["timestamp"], first["mode"], first["op"]) == ("1970-01-01T00:00:47.904Z", "sync", 3)
    assert http.get(f"/log/{topic}/0/offset?at=47904.0").json() == {"offset": 0}
    assert http.put(f"/log/{topic}", content=b'{"partitions": 1.0}').status_code == 200


def test_pages_go_on_after_an_offset_as_streams_do(http: httpx2.Client, topic: str) -> None:
    http.post(f"/log/{topic}/0/records", json=[{"value": number} for number in range(4)])
    for accept in ("application/json", "application/x-ndjson"):
        page = http.get(f"/log/{topic}/0/records?after=1&from=0", headers={"Accept": accept}).text
        assert re.findall(r'"offset":(\d+)', page) == ["2", "3"]


def test_a_stream_ends_with_an_error_when_its_topic_goes(http: httpx2.Client) -> None:
    http.put("/log/fleeting")
    with Stream(http, "/log/fleeting/0/records") as events:
        http.delete("/log/fleeting")
        event = next(events)
        problem: Any = event.json()
        assert (event.event, problem["code"]) == ("error", "unknown-topic")


def test_the_description_names_every_operation_and_no_other(http: httpx2.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    described = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert described == {(operation.path, operation.method) for operation in EVERY}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: f"{operation.method} {operation.path}")
def test_every_described_operation_exists(http: httpx2.Client, operation: Operation[Any, Any]) -> None:
    names = re.sub(r"{(topic|name|sink|job|namespace|queue|key|token)}", "none", operation.path)
    path = re.sub(r"{(partition|offset|region|table|id)}", "0", names).replace("{number}", "1").replace("{transaction}", "0-0-1")
    path = path.replace("{path}", "none~" if "/indexes/" in path or "/views/" in path else "none").replace("{index}", "none")
    query = {one.name: "0" for one in shape_of(operation).query.values() if one.required} | QUERIES.get(operation.id, {})
    headers = {"Content-Type": "application/x-ndjson"} if operation.id in BULK else {}
    allowed = http.options(path).headers["allow"].split(", ")
    assert operation.method in allowed
    if operation.method == "PUT":
        return  # it would create what it names
    body = BODIES.get(operation.id, b'{"value": 1}' if operation.path.endswith("/records") else b"{}")
    content = body if operation.method == "POST" else None
    status = http.request(operation.method, path, params=query, content=content, headers=headers).status_code
    assert status == STATUSES.get(operation.id, 404 if "{" in operation.path else 200)


TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
    "enum",
    "const",
    "items",
    "prefixItems",
    "propertyNames",
    "minimum",
    "maximum",
}
WORDS = {"description", "format", "default", "pattern", "contentEncoding", "minItems", "maxItems"}


def conforms(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    """JSON Schema as far as our description uses it; a word that is not known here fails, so that nothing is passed over."""
    assert set(schema) <= KNOWN | WORDS, schema
    if "$ref" in schema:
        conforms(value, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert isinstance(value, tuple(TYPES[kind] for kind in kinds)), (value, schema)
    assert value in schema.get("enum", [value]), (value, schema)
    assert value == schema.get("const", value)
    if isinstance(value, int):
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), (value, schema)
        for name, inner in value.items():
            known = schema.get("properties", {})
            assert name in known or schema.get("additionalProperties", True), (name, schema)
            conforms(inner, known.get(name, {}), document)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for at, inner in enumerate(value):
            rest = schema.get("items", {})
            assert at < len(first) or rest is not False
            conforms(inner, first[at] if at < len(first) else rest, document)
    if "anyOf" in schema:
        assert any(fits(value, option, document) for option in schema["anyOf"]), (value, schema)


def fits(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> bool:
    try:
        conforms(value, schema, document)
    except AssertionError:
        return False
    return True


def test_the_answers_have_the_shapes_that_are_described(http: httpx2.Client, topic: str) -> None:
    document = http.get("/openapi.json").json()
    http.post(f"/log/{topic}/0/records", content=b'{"key": "k", "value": {"$binary": "/w=="}, "headers": [["h", null]]}')
    asked = {
        "health": http.get("/healthz"),
        "ready": http.get("/readyz"),
        "topics": http.get("/log"),
        "topic": http.get(f"/log/{topic}"),
        "bounds": http.get(f"/log/{topic}/0"),
        "offset_at": http.get(f"/log/{topic}/0/offset?at=0"),
        "read": http.get(f"/log/{topic}/0/records"),
        "append": http.post(f"/log/{topic}/0/records", content=b'{"value": 1}'),
        "delete_before": http.delete(f"/log/{topic}/0/records?before=1"),
        "compact": http.post(f"/log/{topic}/0/compact"),
        "create_topic": http.put(f"/log/{topic}"),
    }
    for operation in (*OWN, *LOG.operations):
        if operation.name in asked:
            response = asked[operation.name]
            answer = document["paths"][operation.path][operation.method.lower()]["responses"][str(response.status_code)]
            conforms(response.json(), answer["content"]["application/json"]["schema"], document)
    broken = http.get("/log/none")
    answer = document["paths"]["/log/{topic}"]["get"]["responses"]["404"]
    conforms(broken.json(), answer["content"]["application/problem+json"]["schema"], document)
    with pytest.raises(AssertionError):
        conforms({"offset": 1}, {"$ref": "#/components/schemas/ShownRecord"}, document)


def test_requests_are_counted_by_route_and_never_by_name(http: httpx2.Client, topic: str) -> None:
    http.get(f"/log/{topic}/0/records")
    http.get("/nowhere/at/all")
    http.request("BREW", "/healthz")
    counts = http.get("/metrics").text
    assert 'headwater_http_request_seconds_count{method="GET",route="/log/{topic}/{partition}/records",status="200"}' in counts
    assert 'headwater_http_request_seconds_count{method="GET",route="unmatched",status="404"}' in counts
    assert "BREW" not in counts
    assert "nowhere" not in counts
    assert "headwater_build_info" in counts
    assert f'headwater_log_appended_records_total{{topic="{topic}"}}' not in counts
    http.post(f"/log/{topic}/0/records", content=b'{"value": 1}')
    assert f'headwater_log_appended_records_total{{topic="{topic}"}} 1.0' in http.get("/metrics").text
