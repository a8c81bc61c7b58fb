"""Cases of documents: lives that end, views and live queries."""

from __future__ import annotations

from functools import partial

from headwater.testing.document_cases_ground import CONTENT, FEED, INDEXES, DocumentCasesGround, DocumentHouse, problem, told


class DocumentMoreCases(DocumentCasesGround):
    def test_what_has_a_time_to_live_is_deleted_by_a_change(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        assert told(house.put(f"{path}/short", {}, Hyper_Storage_TTL="300ms")) == (201, 1)
        assert told(house.put(f"{path}/long", {}, Hyper_Storage_TTL="1h")) == (201, 2)
        assert problem(house.put(f"{path}/none", {}, Hyper_Storage_TTL="0s")) == (400, "bad-input")
        # A date that no store can hold would stand in the log for good, and no later change of the partition would be applied.
        assert problem(house.put(f"{path}/ever", {}, Hyper_Storage_TTL="9999999999999h")) == (400, "bad-input")
        house.until(lambda: house.get(f"{path}/short").status_code == 404)
        assert house.query(path) == ["long"]
        house.until(lambda: len(house.feed(path)) == 3)
        house.tells(
            path,
            (1, "feed:put", f"{path}/short", {"id": "short"}),
            (2, "feed:put", f"{path}/long", {"id": "long"}),
            (3, "feed:delete", f"{path}/short", None),
        )

    def test_a_view_mirrors_what_its_filter_names(self, house: DocumentHouse, root: str) -> None:
        view = f"{root}-view~"
        house.put(f"{root}/a~/1", {"n": 1})
        house.put(f"{root}/a~/2", {"n": 5})
        made = house.ask("PUT", f"/hyper-storage/views/{view}", {"templateUri": f"{root}/a~/{{*}}", "filter": "n > 2"})
        assert made.status_code == 201, made.text
        house.until(lambda: house.get(view).status_code == 200 and len(house.query(view)) == 1)
        house.put(f"{root}/a~/1", {"n": 7})
        house.until(lambda: len(house.query(view)) == 2)
        house.delete(f"{root}/a~/2")
        house.until(lambda: len(house.query(view)) == 1)
        assert [item["n"] for item in house.get(view).json()["_embedded"]["els"]] == [7]
        assert problem(house.put(f"{view}/x", {})) == (409, "view_modification")
        revisions = [change["revision"] for change in house.feed(view)]
        assert revisions == list(range(1, len(revisions) + 1))
        assert house.ask("DELETE", f"/hyper-storage/views/{view}").status_code == 204

    def test_collections_get_the_indexes_of_their_templates(self, house: DocumentHouse, root: str) -> None:
        templates, id = "/hyper-storage/template-indexes", f"by-price-{root}"
        house.put(f"{root}/old~/1", {"price": 2})
        new = {"templateUri": f"{root}/*~", "sortBy": [{"fieldName": "price", "fieldType": "decimal"}]}
        assert house.ask("PUT", f"{templates}/{id}", new).status_code == 201
        assert house.ask("PUT", f"{templates}/{id}", new).status_code == 200
        assert problem(house.ask("PUT", f"{templates}/{id}", {**new, "templateUri": "*~"})) == (409, "already-exists")
        assert problem(house.ask("PUT", f"{templates}/{id}", {**new, "templateUri": "no"})) == (400, "bad-input")
        shown = house.ask("GET", f"{templates}/{id}").json()
        assert (shown["indexId"], shown["templateUri"]) == (id, f"{root}/*~")
        assert shown in house.ask("GET", templates).json()["items"]
        house.put(f"{root}/new~/1", {"price": 1})
        for path in (f"{root}/old~", f"{root}/new~"):
            house.until(partial(_is_ready, house, f"{INDEXES}/{path}/{id}"))
            assert house.get(path, "sort=price&explain=1").json()["explain"]["index"] == id
        assert house.ask("DELETE", f"{templates}/{id}").status_code == 204
        assert problem(house.ask("DELETE", f"{templates}/{id}")) == (404, "index-not-found")
        assert house.ask("GET", f"{INDEXES}/{root}/new~/{id}").status_code == 200  # it stays

    def test_items_that_do_not_fit_the_schema_are_refused(self, house: DocumentHouse, root: str) -> None:
        path, schemas = f"{root}~", f"/hyper-storage/schemas/{root}~"
        assert told(house.put(f"{path}/old", {"price": "free"})) == (201, 1)
        assert house.ask("GET", schemas).status_code == 404
        schema = {"required": ["price"], "properties": {"price": {"type": "number", "minimum": 0}, "tags": {"items": {"type": "string"}}}}
        assert house.ask("PUT", schemas, schema).status_code == 201
        assert house.ask("PUT", schemas, schema).status_code == 200
        assert house.ask("GET", schemas).json() == {"path": path, "schema": schema}
        assert problem(house.ask("PUT", schemas, {"tpye": "object"})) == (400, "bad-input")
        assert told(house.put(f"{path}/hat", {"price": 12.50})) == (201, 2)
        refused = house.put(f"{path}/hat", {"price": -1})
        assert problem(refused) == (422, "unfit-body")
        assert "/price of" in refused.json()["detail"]
        assert problem(house.ask("PATCH", f"{CONTENT}/{path}/hat", {"tags": ["new", 1]})) == (422, "unfit-body")
        assert problem(house.ask("PATCH", f"{CONTENT}/{path}/hat", {"price": None})) == (422, "unfit-body")
        assert problem(house.ask("POST", f"{CONTENT}/{path}", {})) == (422, "unfit-body")
        assert problem(house.ask("PATCH", f"{CONTENT}/{path}/old", {"name": "Old"})) == (422, "unfit-body")  # once it is changed
        assert house.get(f"{path}/old").json() == {"id": "old", "price": "free"}
        assert [change["revision"] for change in house.feed(path)] == [1, 2]
        assert house.ask("DELETE", schemas).status_code == 204
        assert house.ask("DELETE", schemas).status_code == 404
        assert told(house.put(f"{path}/hat", {})) == (200, 3)

    def test_a_live_query_tells_what_enters_and_leaves(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, {"id": "in", "n": 5}, {"id": "out", "n": 1})
        address = f"{FEED}/{path}?filter=n%20%3E%202"
        with house.streaming(address, "leave") as events:
            house.until(lambda: events.has("snapshot:end"))
            house.patch(f"{path}/out", {"n": 3})
            house.patch(f"{path}/in", {"m": 1})
            house.put(f"{path}/other", {"n": 0})
            house.delete(f"{path}/in")
        told_of = [(event["event"], event.get("path")) for event in events.found]
        assert told_of == [
            ("snapshot:put", f"{path}/in"),
            ("snapshot:end", path),
            ("enter", f"{path}/out"),
            ("change", f"{path}/in"),
            ("leave", f"{path}/in"),
        ]


def _is_ready(house: DocumentHouse, index: str) -> bool:
    return bool(house.ask("GET", index).json().get("status") == "ready")
