"""Cases of documents: every verb, path, body and patch, with its status, revision and event; conditions, keys and batches."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import msgspec
import pytest

from headwater.documents.answers import TransactionState
from headwater.testing.document_cases_ground import CONTENT, LINES, DocumentCasesGround, DocumentHouse, items, problem, told

_JSON_PATCH, _INCREMENT = "application/json-patch+json", "application/vnd.hyper-storage-increment+json"
_LIVES = ["absent", "live", "deleted"]


def _live(house: DocumentHouse, path: str, state: str) -> int:
    """Bring a document or item into a state; the revision that its document or collection has then."""
    if state == "absent":
        return 0
    assert told(house.put(path, {"old": True})) == (201, 1)
    return 1 if state == "live" else told(house.delete(path))[1]


class DocumentVerbCases(DocumentCasesGround):
    # -- the rows of verbs ------------------------------------------------------------------------------------

    @pytest.mark.parametrize("state", _LIVES)
    @pytest.mark.parametrize("name", ["doc", "c~/1"])
    def test_put(self, house: DocumentHouse, root: str, name: str, state: str) -> None:
        path = f"{root}/{name}"
        before = _live(house, path, state)
        answer = house.put(path, {"new": 1, "none": None})
        assert told(answer) == (200 if state == "live" else 201, before + 1)
        body = {"id": "1", "new": 1} if "~" in name else {"new": 1}
        assert house.get(path).json() == body
        last = house.feed(path)[-1]
        assert (last["revision"], last["method"], last["path"], last["body"]) == (before + 1, "feed:put", path, body)

    def test_put_of_a_collection_is_refused(self, house: DocumentHouse, root: str) -> None:
        assert problem(house.put(f"{root}/c~", {})) == (409, "collection-put-not-implemented")
        house.put(f"{root}/c~/1", {})
        assert problem(house.put(f"{root}/c~", {})) == (409, "collection-put-not-implemented")
        assert [change["revision"] for change in house.feed(f"{root}/c~")] == [1]

    def test_post_adds_items_whose_ids_grow(self, house: DocumentHouse, root: str) -> None:
        answers = [house.post(f"{root}/c~", {"n": number, "id": "mine"}) for number in range(5)]
        assert [told(answer) for answer in answers] == [(201, number) for number in range(1, 6)]
        paths = [answer.json()["path"] for answer in answers]
        assert all(re.fullmatch(rf"{root}/c~/[0-9A-Za-z_-]{{10,40}}", path) for path in paths)
        assert paths == sorted(paths)
        assert [answer.headers["location"] for answer in answers] == [f"{CONTENT}/{path}" for path in paths]
        assert house.get(paths[0]).json() == {"id": paths[0].rpartition("/")[2], "n": 0}
        assert [change["method"] for change in house.feed(f"{root}/c~")] == ["feed:put"] * 5
        assert house.query(f"{root}/c~") == [path.rpartition("/")[2] for path in paths]

    @pytest.mark.parametrize("name", ["doc", "c~/1"])
    @pytest.mark.parametrize("state", _LIVES)
    def test_post_to_what_is_no_collection_is_no_method(self, house: DocumentHouse, root: str, name: str, state: str) -> None:
        _live(house, f"{root}/{name}", state)
        refused = house.post(f"{root}/{name}", {})
        assert (problem(refused), refused.headers["allow"]) == ((405, "bad-method"), "DELETE, GET, HEAD, OPTIONS, PATCH, PUT")

    @pytest.mark.parametrize("name", ["doc", "c~/1"])
    @pytest.mark.parametrize("state", _LIVES)
    def test_patch(self, house: DocumentHouse, root: str, name: str, state: str) -> None:
        path = f"{root}/{name}"
        before = _live(house, path, state)
        answer = house.patch(path, {"old": None, "new": 1})
        if state != "live":
            assert problem(answer) == (404, "not_found")
            assert told(house.put(path, {})) == (201, before + 1)  # what was refused took no revision
            return
        assert told(answer) == (200, 2)
        assert house.get(path).json() == ({"id": "1", "new": 1} if "~" in name else {"new": 1})
        assert house.feed(path)[-1]["body"] == {"old": None, "new": 1}  # exactly as it was sent

    @pytest.mark.parametrize("state", _LIVES)
    def test_patch_of_a_collection_is_no_method(self, house: DocumentHouse, root: str, state: str) -> None:
        _live(house, f"{root}/c~/1", state)
        refused = house.patch(f"{root}/c~", {})
        assert (problem(refused), refused.headers["allow"]) == ((405, "bad-method"), "DELETE, GET, HEAD, OPTIONS, POST")

    @pytest.mark.parametrize("name", ["doc", "c~/1"])
    @pytest.mark.parametrize("state", _LIVES)
    def test_delete(self, house: DocumentHouse, root: str, name: str, state: str) -> None:
        path = f"{root}/{name}"
        before = _live(house, path, state)
        answer = house.delete(path)
        if state != "live":
            assert problem(answer) == (404, "not_found")
            assert [change["revision"] for change in house.feed(path)] == list(range(1, before + 1))
            return
        assert told(answer) == (200, 2)
        assert problem(house.get(path)) == (404, "not_found")
        last = house.feed(path)[-1]
        assert (last["method"], last["path"], last.get("body")) == ("feed:delete", path, None)

    def test_delete_of_a_collection_never_returns_its_items(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/c~"
        assert problem(house.delete(path)) == (404, "not_found")
        house.fill(path, {"id": "1"}, {"id": "2"})
        house.index(path, "by", sortBy=[{"fieldName": "n"}])
        assert told(house.delete(path)) == (200, 3)
        assert house.feed(path)[-1]["path"] == path
        for gone in (path, f"{path}/1"):
            assert problem(house.get(gone)) == (404, "not_found")
        assert problem(house.delete(path)) == (404, "not_found")
        assert told(house.put(f"{path}/3", {})) == (201, 4)
        assert items(house.get(path, "size=1")) == ["3"]
        assert house.query(path) == ["3"]
        assert house.query(path, sort="n") == ["3"]
        assert problem(house.get(f"{path}/1")) == (404, "not_found")

    def test_get(self, house: DocumentHouse, root: str) -> None:
        for path in (f"{root}/doc", f"{root}/c~", f"{root}/c~/1"):
            assert problem(house.get(path)) == (404, "not_found")
        house.put(f"{root}/c~/1", {"a": 1})
        house.put(f"{root}/c~/2", {"a": 2})
        first = house.get(f"{root}/c~/1")
        assert (first.headers["hyperbus-revision"], first.headers["etag"]) == ("2", '"1"')  # the collection's, and the item's own
        house.delete(f"{root}/c~/1")
        house.delete(f"{root}/c~/2")
        empty = house.get(f"{root}/c~")
        assert (empty.status_code, empty.headers["hyperbus-revision"], items(empty)) == (200, "4", [])
        assert problem(house.get(f"{root}/c~/1")) == (404, "not_found")
        assert house.ask("HEAD", f"{CONTENT}/{root}/c~").headers["hyperbus-revision"] == "4"

    def test_fifty_at_once_make_fifty_revisions(self, house: DocumentHouse, root: str) -> None:
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda number: told(house.put(f"{root}/doc", number))[1], range(50)))
        assert sorted(answers) == list(range(1, 51))
        feed = house.feed(f"{root}/doc")
        assert [change["revision"] for change in feed] == list(range(1, 51))
        assert [change["body"] for change in feed] == [answers.index(revision) for revision in range(1, 51)]
        assert house.get(f"{root}/doc").json() == answers.index(50)

    # -- paths ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", ["a", "a/~b", "a~/1/2", "-._~:[]@!$&'()*+,;=x", "x" * 2000])
    def test_paths_of_documents(self, house: DocumentHouse, root: str, name: str) -> None:
        made = house.put(f"{root}/{name}", "text")
        assert told(made) == (201, 1)
        assert house.ask("GET", made.headers["location"]).json() == "text"

    def test_paths_of_collections_and_items(self, house: DocumentHouse, root: str) -> None:
        for collection in (f"{root}~", f"{root}/b~"):
            assert told(house.post(collection, {})) == (201, 1)
            assert told(house.put(f"{collection}/1", {})) == (201, 2)
            assert told(house.put(f"{collection}/b~", {})) == (201, 3)  # an item, whose id ends so
            assert house.get(f"{collection}/b~").json() == {"id": "b~"}

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("a~/b~/c", "below a collection"), ("a//b", "empty segment"), ("a/", "empty segment"), ("a%20b", "' ' at character 2"),
            ("a%25b", "'%' at character 2"), ("a%3Fb", "'?' at character 2"), ("a%23b", "'#' at character 2"),
            ("a%22", "'\"' at character 2"), ("%C3%A4", "'ä' at character 1"), ("x" * 2049, "2049 characters"),
        ],
    )  # fmt: skip
    def test_a_bad_path_is_refused_at_once(self, house: DocumentHouse, path: str, says: str) -> None:
        for answer in (house.get(path), house.put(path, {}), house.patch(path, {}), house.delete(path), house.post(path, {})):
            assert problem(answer) == (400, "bad-path")
            assert says in answer.json()["detail"]

    # -- bodies -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("body", ["text", 1, 1.5, True, [1, None, {"a": None}], {}, {"a": {"b": [None]}}, "", None])
    def test_a_document_is_any_json(self, house: DocumentHouse, root: str, body: Any) -> None:
        assert told(house.put(f"{root}/doc", body)) == (201, 1)
        assert house.get(f"{root}/doc").json() == body
        assert house.feed(f"{root}/doc")[0]["body"] == body

    def test_numbers_stay_as_they_are_written(self, house: DocumentHouse, root: str) -> None:
        body = b'{"a":1.10,"b":12345678901234567890123,"c":1E+400,"d":-0.0}'
        house.ask("PUT", f"{CONTENT}/{root}/doc", content=body)
        assert house.get(f"{root}/doc").content == body

    def test_null_fields_go_but_not_those_in_lists(self, house: DocumentHouse, root: str) -> None:
        house.put(f"{root}/doc", {"a": None, "b": {"c": None, "d": {"e": None}}, "f": [None, {"g": None}]})
        assert house.get(f"{root}/doc").json() == {"b": {"d": {}}, "f": [None, {"g": None}]}

    def test_items_are_objects_that_keep_their_id(self, house: DocumentHouse, root: str) -> None:
        wrong: list[Any] = [1, "text", [], True]
        for body in wrong:
            assert problem(house.put(f"{root}/c~/1", body)) == (422, "unfit-body")
            assert problem(house.post(f"{root}/c~", body)) == (422, "unfit-body")
        assert told(house.put(f"{root}/c~/1", None)) == (201, 1)
        assert house.get(f"{root}/c~/1").json() == {"id": "1"}
        assert told(house.put(f"{root}/c~/1", {"id": "x", "a": 1})) == (200, 2)
        for patch in ({"id": "x"}, {"id": None}, {"id": 7, "b": 2}):
            house.patch(f"{root}/c~/1", patch)
        assert house.get(f"{root}/c~/1").json() == {"id": "1", "a": 1, "b": 2}

    @pytest.mark.parametrize("body", [b"", b"{", b'{"a":1}{}', b'"\xff"', b"NaN", b"[" * 3000])
    def test_what_is_no_json_is_refused(self, house: DocumentHouse, root: str, body: bytes) -> None:
        assert problem(house.ask("PUT", f"{CONTENT}/{root}/doc", content=body))[0] in (400, 422)
        assert problem(house.get(f"{root}/doc")) == (404, "not_found")

    def test_types_and_sizes(self, house: DocumentHouse, root: str) -> None:
        assert problem(house.ask("PUT", f"{CONTENT}/{root}/d", content=b"{}", Content_Type="text/plain")) == (415, "bad-type")
        assert told(house.ask("PUT", f"{CONTENT}/{root}/d", content=b"{}", Content_Type="application/vnd.x+json")) == (201, 1)
        assert problem(house.put(f"{root}/d", "x" * 20_000)) == (413, "too-large")

    # -- patches ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("before", "patch", "after"),
        [
            ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
            ({"o": {"x": 1, "y": 2}}, {"o": {"x": None}}, {"o": {"y": 2}}),
            ({"l": [1, 2]}, {"l": [3]}, {"l": [3]}),
            ({"a": 1}, {"n": {"m": 1}}, {"a": 1, "n": {"m": 1}}),
            ({"o": {"x": 1}}, {"o": None}, {}),
            ({"o": {"x": 1}}, {"o": 5}, {"o": 5}),
            ({"o": {"x": 1}}, {"o": [1]}, {"o": [1]}),
            ("text", {"a": 1}, {"a": 1}),
            (5, {"a": {"b": None}}, {"a": {}}),
            ({"a": 1}, "text", "text"),
        ],
    )
    def test_merge_patches(self, house: DocumentHouse, root: str, before: Any, patch: Any, after: Any) -> None:
        house.put(f"{root}/doc", before)
        assert told(house.patch(f"{root}/doc", patch)) == (200, 2)
        assert house.get(f"{root}/doc").json() == after
        assert house.feed(f"{root}/doc")[1]["method"] == "feed:patch"
        assert house.get(f"{root}/doc", "revision=1").json() == before

    def test_json_patches_and_increments_are_told_as_merge_patches(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/doc"
        house.put(path, {"n": 1, "l": [1, 2]})
        assert told(house.patch(path, [{"op": "add", "path": "/m", "value": 2}, {"op": "remove", "path": "/n"}], Content_Type=_JSON_PATCH))
        assert told(house.patch(path, {"m": 0.5}, Content_Type=_INCREMENT)) == (200, 3)
        assert problem(house.patch(path, [{"op": "test", "path": "/m", "value": 1}], Content_Type=_JSON_PATCH)) == (412, "not-matched")
        assert problem(house.patch(path, [{"op": "remove", "path": "/x"}], Content_Type=_JSON_PATCH))[0] == 422
        assert problem(house.patch(path, {"l": 1}, Content_Type=_INCREMENT))[0] == 422
        assert house.get(path).json() == {"l": [1, 2], "m": 2.5}
        told_of = [(change["method"], change["body"]) for change in house.feed(path)]
        assert told_of[1:] == [("feed:patch", {"m": 2, "n": None}), ("feed:patch", {"m": 2.5})]
        house.patch(path, [{"op": "replace", "path": "/l/0", "value": None}], Content_Type=_JSON_PATCH)
        assert house.get(path).json() == {"l": [None, 2], "m": 2.5}

    # -- conditions, keys, batches ----------------------------------------------------------------------------

    def test_conditions(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/c~/1"
        assert problem(house.put(path, {}, If_Match="*")) == (412, "not-matched")
        assert told(house.put(path, {}, If_None_Match="*")) == (201, 1)
        assert problem(house.put(path, {}, If_None_Match="*")) == (412, "not-matched")
        assert told(house.put(f"{root}/c~/2", {}))[1] == 2
        assert told(house.put(path, {}, If_Match='"1"')) == (200, 3)  # a sibling's write does not matter
        assert problem(house.patch(path, {}, If_Match='"1"')) == (412, "not-matched")
        assert problem(house.delete(path, If_Match='"1"')) == (412, "not-matched")
        unchanged = house.get(path, If_None_Match='"3"')
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert house.get(path, If_None_Match='"1"').status_code == 200
        assert problem(house.get(path, If_Match='"1"')) == (412, "not-matched")
        assert told(house.delete(path, If_Match='"3"')) == (200, 4)

    def test_a_write_that_is_sent_twice_is_done_once(self, house: DocumentHouse, root: str) -> None:
        first = house.post(f"{root}/c~", {"n": 1}, Idempotency_Key="k")
        again = house.post(f"{root}/c~", {"n": 1}, Idempotency_Key="k")
        assert (again.status_code, again.json(), again.headers["idempotency-replayed"]) == (201, first.json(), "true")
        assert problem(house.post(f"{root}/c~", {"n": 2}, Idempotency_Key="k")) == (422, "key-reused")
        assert len(house.feed(f"{root}/c~")) == 1

    def test_batches(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}/c~"
        writes = [
            {"method": "put", "path": f"{path}/1", "body": {"n": 1}},
            {"method": "patch", "path": f"{path}/2", "body": {}},
            {"method": "put", "path": f"{root}/doc", "body": 1},
            {"method": "post", "path": path, "body": {"n": 3}},
        ]
        body = b"\n".join(map(msgspec.json.encode, writes))
        answer = house.ask("POST", "/hyper-storage/batch", content=body, Content_Type=LINES)
        outcomes = [msgspec.json.decode(line) for line in answer.content.splitlines()]
        assert [outcome.get("revision") or outcome["code"] for outcome in outcomes] == [1, "not_found", 1, 2]
        writes[2:3] = []
        atomic = house.ask(
            "POST", "/hyper-storage/batch?atomic=true", content=b"\n".join(map(msgspec.json.encode, writes)), Content_Type=LINES
        )
        assert problem(atomic) == (404, "not_found")
        writes[1] = {"method": "delete", "path": f"{path}/1"}
        atomic = house.ask(
            "POST", "/hyper-storage/batch?atomic=true", content=b"\n".join(map(msgspec.json.encode, writes)), Content_Type=LINES
        )
        assert [msgspec.json.decode(line)["revision"] for line in atomic.content.splitlines()] == [3, 4, 5]
        assert [change["revision"] for change in house.feed(path)] == [1, 2, 3, 4, 5]

    def test_transactions(self, house: DocumentHouse, root: str) -> None:
        made = house.put(f"{root}/doc", 1)
        link = made.json()["_links"]["self"]["href"]
        shown = house.ask("GET", link).json()
        assert (shown["path"], shown["revision"], shown["state"]) == (f"{root}/doc", 1, "published")
        house.put(f"{root}/doc", 2)
        listed = house.ask("GET", f"/hyper-storage/transactions?path={root}/doc").json()["items"]
        assert [transaction["revision"] for transaction in listed] == [2, 1]
        by_state = {
            state: house.ask("GET", f"/hyper-storage/transactions?path={root}/doc&state={state}") for state in get_args(TransactionState)
        }
        assert {state: len(answer.json()["items"]) for state, answer in by_state.items()} == {
            "accepted": 0,
            "applied": 2,
            "indexed": 2,
            "published": 2,
        }
        assert problem(house.ask("GET", "/hyper-storage/transactions/nothing"))[0] in (400, 404)

    def test_a_listing(self, house: DocumentHouse, root: str) -> None:
        for name in ("b", "a", "c~/1", "gone"):
            house.put(f"{root}/{name}", {})
        house.delete(f"{root}/gone")
        listing = house.ask("GET", f"{CONTENT}?prefix={root}/&limit=2").json()
        assert ([item["path"] for item in listing["items"]], listing["next"]) == ([f"{root}/a", f"{root}/b"], f"{root}/b")
        rest = house.ask("GET", f"{CONTENT}?prefix={root}/&after={listing['next']}").json()
        assert [item["path"] for item in rest["items"]] == [f"{root}/c~"]
