"""Cases of documents: feeds, history and what was; every way to fail on the way of a write, and what is there afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from headwater.core.errors import OutcomeUnknown, Unavailable
from headwater.testing.document_cases_ground import (
    CONTENT,
    FEED,
    HISTORY,
    INDEXES,
    LINES,
    DocumentCasesGround,
    DocumentHouse,
    items,
    problem,
    told,
)

_UNREACHABLE = Unavailable("The log does not answer.", hint="Ask again.")
_UNKNOWN = OutcomeUnknown("The log took too long.", hint="Read.")


class DocumentChangeCases(DocumentCasesGround):
    # -- feeds, history, what was -----------------------------------------------------------------------------

    def test_the_feed_of_a_collection_is_its_history(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.put(f"{path}/1", {"n": 1, "none": None})
        house.patch(f"{path}/1", {"n": None, "m": {"x": 1}})
        house.put(f"{path}/2", None)
        house.put(f"{path}/1", {"n": 2})
        house.delete(f"{path}/2")
        house.delete(path)
        house.put(f"{path}/3", {})
        changes: list[tuple[int, str, str, Any]] = [
            (1, "feed:put", f"{path}/1", {"id": "1", "n": 1}),
            (2, "feed:patch", f"{path}/1", {"n": None, "m": {"x": 1}}),
            (3, "feed:put", f"{path}/2", {"id": "2"}),
            (4, "feed:put", f"{path}/1", {"id": "1", "n": 2}),
            (5, "feed:delete", f"{path}/2", None),
            (6, "feed:delete", path, None),
            (7, "feed:put", f"{path}/3", {"id": "3"}),
        ]
        house.tells(path, *changes)
        item = [change["revision"] for change in house.feed(f"{path}/1")]
        assert item in ([1, 2, 4], [1, 2, 4, 6])
        assert item == [change["revision"] for change in house.history(f"{path}/1")]
        for after in range(8):
            assert [change["revision"] for change in house.feed(path, str(after))] == list(range(after + 1, 8))
        assert problem(house.ask("GET", f"{FEED}/{path}?after=x")) == (400, "bad-input")

    def test_a_feed_of_everything_below_a_path(self, house: DocumentHouse, root: str) -> None:
        for path in ("a", "b/c", "d~/1"):
            house.put(f"{root}/{path}", {})
        house.put(f"{root}x", 1)
        *snapshot, end = house.events(f"{FEED}/{root}/?snapshot=1", "snapshot:end")
        assert {event["event"] for event in snapshot} == {"snapshot:put"}
        assert sorted(event["path"] for event in snapshot) == [f"{root}/a", f"{root}/b/c", f"{root}/d~/1"]
        position = end["id"]
        house.delete(f"{root}/a")
        house.put(f"{root}/d~/2", {})
        changes: list[dict[str, Any]] = []
        while page := house.feed(f"{root}/", changes[-1]["position"] if changes else position):
            changes += page
        assert sorted((change["method"], change["path"]) for change in changes) == [
            ("feed:delete", f"{root}/a"),
            ("feed:put", f"{root}/d~/2"),
        ]

    def test_a_feed_of_everything(self, house: DocumentHouse, root: str) -> None:
        events = house.events(f"{FEED}//?snapshot=1", "snapshot:end")
        position = events[-1]["id"]
        house.put(f"{root}/a", 1)
        house.put(f"{root}-other~/b", {})
        paths: set[str] = set()
        while not paths >= {f"{root}/a", f"{root}-other~/b"}:  # a poll may answer with the changes of some partitions
            lines = house.ask("GET", f"{FEED}//?after={position}", Prefer="wait=10").text.splitlines()
            assert lines
            changes = [msgspec.json.decode(line) for line in lines]
            paths |= {change["path"] for change in changes}
            position = changes[-1]["position"]

    def test_a_snapshot_and_then_what_follows(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, {"id": "a"}, {"id": "b"})
        house.delete(f"{path}/a")
        events = house.events(f"{FEED}/{path}?snapshot=1", "snapshot:end")
        assert [(event["event"], event.get("path")) for event in events[:-1]] == [("snapshot:put", f"{path}/b")]
        assert (events[-1]["revision"], events[-1]["id"]) == (3, "3")
        house.put(f"{path}/c", {})
        house.delete(f"{path}/b")
        followed = house.events(f"{FEED}/{path}?snapshot=1", "feed:delete", Last_Event_ID="3")
        assert [(event["event"], event["id"], event["path"]) for event in followed] == [
            ("feed:put", "4", f"{path}/c"), ("feed:delete", "5", f"{path}/b"),
        ]  # fmt: skip

    def test_a_poll_waits_for_a_change(self, house: DocumentHouse, root: str) -> None:
        house.put(f"{root}/doc", 1)

        async def polled() -> list[int]:
            performed = asyncio.create_task(asyncio.to_thread(house.ask, "GET", f"{FEED}/{root}/doc?after=1", Prefer="wait=30"))
            written = await asyncio.to_thread(house.put, f"{root}/doc", 2)
            assert told(written) == (200, 2)
            return [msgspec.json.decode(line)["revision"] for line in (await performed).content.splitlines()]

        assert asyncio.run(polled()) == [2]

    def test_what_was_and_its_return(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/doc"
        for number in range(1, 5):
            house.put(path, {"n": number})
        house.delete(path)
        assert [change["revision"] for change in house.ask("GET", f"{HISTORY}/{path}?limit=2&reverse=true").json()["items"]] == [5, 4]
        assert house.get(path, "revision=2").json() == {"n": 2}
        assert problem(house.get(path, "revision=5")) == (404, "not_found")
        assert problem(house.get(path, "revision=9")) == (404, "not_found")
        assert problem(house.get(path, "at=2001-01-01T00:00:00Z")) == (404, "not_found")
        assert told(house.ask("POST", f"{HISTORY}/{path}", {"revision": 3})) == (201, 6)
        assert house.get(path).json() == {"n": 3}
        assert house.get(path, "at=2999-01-01T00:00:00Z").json() == {"n": 3}
        assert problem(house.ask("GET", f"{HISTORY}/{root}/nothing")) == (404, "not_found")

    def test_what_has_changed_since(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, {"id": "1"}, {"id": "2"}, {"id": "3"})
        house.delete(f"{path}/1")
        house.patch(f"{path}/2", {"n": 1})
        changes = house.get(path, "since=3").json()
        assert [(change["path"], change.get("deleted", False)) for change in changes["items"]] == [
            (f"{path}/1", True),
            (f"{path}/2", False),
        ]
        assert (changes["revision"], changes["more"], changes["reset"]) == (5, False, False)
        assert house.get(path, "since=5").json()["items"] == []

    def test_records_of_kafka_tell_their_change_in_headers(self, house: DocumentHouse, root: str) -> None:
        """A single change by its headers; an atomic batch is one record, which is read."""
        path, documents = f"{root}~", house.documents
        single = house.put(f"{path}/1", {"n": 1}).json()["transactionId"]
        lines = b"\n".join(msgspec.json.encode({"method": "put", "path": f"{path}/{item}", "body": {}}) for item in "23")
        answer = house.ask("POST", "/hyper-storage/batch?atomic=true", content=lines, Content_Type=LINES)
        batch = msgspec.json.decode(answer.content.splitlines()[0])["transactionId"]
        headers = []
        for transaction in (single, batch):
            shown = house.ask("GET", f"/hyper-storage/transactions/{transaction}").json()
            [record] = documents.log.read(house.topic, shown["partition"], shown["offset"], limit=1)
            assert record.key == path.encode()
            headers.append({name: value for name, value in record.headers if not name.startswith("headwater")})
        told_of = {"uri": f"{path}/1".encode(), "method": b"feed:put", "revision": b"1"}
        assert headers == [told_of if documents.log.engine == "kafka" else {}, {}]

    # -- failures ---------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ["doc", "c~/1"])
    def test_what_fails_before_the_log_is_as_if_it_never_was(self, house: DocumentHouse, root: str, name: str) -> None:
        path = f"{root}/{name}"
        house.put(path, {"n": 1})
        for refused in (
            house.put(path, {}, If_Match='"9"'),
            house.ask("PUT", f"{CONTENT}/{path}", content=b"{"),
            house.patch(path, [{"op": "remove", "path": "/x"}], Content_Type="application/json-patch+json"),
            house.put(path, "x" * 20_000),
        ):
            assert 400 <= refused.status_code < 500
        assert told(house.put(path, {"n": 2})) == (200, 2)
        assert [change["revision"] for change in house.feed(path)] == [1, 2]

    def test_a_log_that_does_not_answer_takes_nothing(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/c~/1"
        house.put(path, {"n": 1})
        house.appends[:] = [_UNREACHABLE]
        assert problem(house.put(path, {"n": 2})) == (503, "unavailable")
        assert house.get(path).json() == {"id": "1", "n": 1}
        assert told(house.put(path, {"n": 3})) == (200, 2)  # its revision is not lost
        house.tells(f"{root}/c~", (1, "feed:put", path, {"id": "1", "n": 1}), (2, "feed:put", path, {"id": "1", "n": 3}))

    def test_an_answer_of_the_log_that_is_lost_is_found(self, house: DocumentHouse, root: str) -> None:
        """The record is there: the write is answered as accepted, once."""
        path = f"{root}/c~/1"
        house.put(path, {"n": 1})
        house.appends[:] = [(_UNKNOWN,)]
        assert told(house.put(path, {"n": 2})) == (200, 2)
        house.appends[:] = [_UNKNOWN]
        assert problem(house.put(path, {"n": 3})) == (503, "unavailable")
        made = house.put(path, {"n": 4})
        assert (told(made), made.json()["state"]) == ((200, 3), "applied")  # the claim between is no change that the store lacks
        assert [change["body"]["n"] for change in house.feed(path)] == [1, 2, 4]

    def test_a_store_that_fails_after_the_log_costs_nothing(self, house: DocumentHouse, root: str) -> None:
        """The normal answer, state accepted; every read has it; recovery applies it; index rows precede that."""
        path = f"{root}~"
        house.index(path, "by-n", sortBy=[{"fieldName": "n"}])
        house.put(f"{path}/1", {"n": 1})
        house.breakable(path)
        house.failing = True
        made = house.put(f"{path}/2", {"n": 0})
        assert (told(made), made.json()["state"]) == ((201, 2), "accepted")
        assert house.ask("GET", made.json()["_links"]["self"]["href"]).json()["state"] in ("accepted", "published")
        assert told(house.delete(f"{path}/1")) == (200, 3)
        assert house.get(f"{path}/2").json() == {"id": "2", "n": 0}
        assert problem(house.get(f"{path}/1")) == (404, "not_found")
        assert items(house.get(path)) == items(house.get(path, "sort=n")) == ["2"]
        assert [change["revision"] for change in house.feed(path)] == [1, 2, 3] == [change["revision"] for change in house.history(path)]
        listed = house.ask("GET", f"/hyper-storage/transactions?path={path}&state=accepted").json()["items"]
        assert [transaction["revision"] for transaction in listed] == [3, 2]
        house.failing = False
        house.until(lambda: _is_applied(house, path))
        explained = house.get(path, "sort=n&explain=1").json()
        assert (explained["explain"]["index"], [item["id"] for item in explained["_embedded"]["els"]]) == ("by-n", ["2"])
        assert house.ask("GET", f"/hyper-storage/transactions?path={path}&state=accepted").json()["items"] == []

    def test_a_long_backlog_refuses_writes_until_the_store_is_back(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/doc"
        house.put(path, 0)
        house.breakable(path)
        house.failing = True
        answers = [house.put(path, number) for number in range(1, 8)]
        accepted = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert [told(answer)[1] for answer in accepted] == list(range(2, len(accepted) + 2))
        assert {problem(answer) for answer in refused} == {(503, "busy")}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert house.get(path).json() == len(accepted)
        house.failing = False
        assert told(house.put(path, "back")) == (200, len(accepted) + 2)
        assert [change["revision"] for change in house.feed(path)] == list(range(1, len(accepted) + 3))

    def test_a_write_with_a_key_is_repeated_after_any_failure(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.put(f"{path}/1", {})
        house.appends[:] = [_UNREACHABLE]
        assert problem(house.post(path, {"n": 1}, Idempotency_Key="k")) == (503, "unavailable")
        made = house.post(path, {"n": 1}, Idempotency_Key="k")
        assert told(made) == (201, 2)
        house.breakable(path)
        house.failing = True
        again = house.post(path, {"n": 1}, Idempotency_Key="k")
        assert (again.json()["path"], again.headers["idempotency-replayed"]) == (made.json()["path"], "true")
        house.failing = False
        assert len(house.feed(path)) == 2

    def test_what_is_durable_is_there_for_the_next_process(self, house: DocumentHouse, root: str) -> None:
        """It dies between the log and the store: whoever comes next applies it, and goes on without a gap."""
        path = f"{root}~"
        house.index(path, "by-n", sortBy=[{"fieldName": "n"}])
        house.put(f"{path}/1", {"n": 2})
        house.breakable(path)
        house.failing = True
        assert told(house.put(f"{path}/2", {"n": 1})) == (201, 2)
        house.restart()
        assert house.query(path, sort="n") == ["2", "1"]
        assert told(house.put(f"{path}/3", {"n": 0})) == (201, 3)
        assert house.query(path, sort="n") == ["3", "2", "1"]
        assert [change["revision"] for change in house.feed(path)] == [1, 2, 3]
        assert house.ask("GET", f"{INDEXES}/{path}/by-n").json()["status"] == "ready"
        assert _is_applied(house, path)


def _is_applied(house: DocumentHouse, path: str) -> bool:
    trail = house.ask("GET", f"/hyper-storage/trail/{path}").json()
    return bool(trail["applied"] == trail["end"])
