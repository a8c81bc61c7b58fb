"""Cases of documents: the filter language, orders, pages, indexes and the limits of queries."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.testing.document_cases_ground import INDEXES, DocumentCasesGround, DocumentHouse, items, problem, told

_ITEM = {
    "id": "k1", "price": 9.9, "n": 10, "name": "Tea", "tags": ["new", "hot"], "size": {"w": 3}, "sold": False, "nullable": 1,
    "odd name": 2, "yes": "yes",
}  # fmt: skip
_TRUE = [
    "n = 10.0", 'n != "10"', "n = 0xA", "n = 1e1", "'Tea' = name", 'name = "\\u0054ea"', "true", "n = 10 and sold = false",
    "nullable = 1", "`odd name` = 2", "size.w = 3", "tags = ['new', 'hot']", 'size = {"w": 3}', "yes",
    "price > 9 and price < 10",
    'name > "Sugar"', "missing = null", "missing is null", "n is not null", "size.h is null", "missing.x = null",
    "name.x is null", "!(missing < 5)", "!(missing > 5)", "null >= null", "missing <= null",
    '!(n < "9")', "!sold and n > 3", "not sold and n > 3",
    "-n = -10", "- n + 20 = 10", "missing or n = 10", "n = 10 or missing.x.y > 3", "sold xor n = 10",
    "n and 2", "n or 1", "!(n and 5)", "!missing = null",
    "1 + 2 * 3 = 7", "(1 + 2) * 3 = 9", "n - 3 - 2 = 5", "n / 4 = 2.5", "n % 3 = 1", "n > 5 = true", "sold or n > 3 and n < 11",
    'tags has "new"', 'tags has ["hot", "new"]', 'tags has not "old"', 'name has "ea"', 'size has "w"', '["Tea", "Coffee"] has name',
    'name like "^T"', 'name like "e"', 'name not like "coffee"', '(tags -- "new") = ["hot"]', '(tags ++ "x") = ["new", "hot", "x"]',
    "case(2, false, true)", "isEmpty(missing)", 'isEmpty("")', "!isEmpty(name)", "isExists(n)", "!isExists(missing)", "length(name) = 3",
    'upper(name) = "TEA"', "lower(name) = 'tea'", "split('a,b', ',') = ['a', 'b']", "indexOf(name, 'a') = 2", "substr(name, 1) = 'ea'",
    "substr(name, 0, 1) = 'T'", "compareIgnoreCase(name, 'TEA') = 0", "apply(tags, 1) = 'hot'", "apply(name, 0) = 'T'", "id = 'k1'",
]  # fmt: skip
_FALSE = [
    "false", "null", "missing", "0", "'no'", "n = null", "n = '10'", "missing < 5", "missing > 5", "missing >= 5", "name > 5", "n < 'z'",
    "!missing", "name + 1 = 2", "'neither'", "tags", "apply(tags, 9) = 1", "n / 0 = 1", "tags has 'old'", "n has 1", "!n = 10",
]  # fmt: skip
_BAD = [
    ("price >", 8), ("(n = 1", 7), ("n = = 1", 5), ("n = 'x", 5), ("n # 1", 3), ("nothing(1)", 1), ("n = 1 2", 7), ("n like '('", None),
    ("n = " + "9" * 200, None), ("(" * 100 + "n" + ")" * 100, None), ("x" * 9000, None),
    ("name like '(a+)+\\\\1'", None), ("n..m = 1", None),
]  # fmt: skip
_ORDER: list[dict[str, Any]] = [
    {"id": "f", "v": None}, {"id": "a"}, {"id": "c", "v": -1}, {"id": "b", "v": 2}, {"id": "e", "v": 10}, {"id": "g", "v": "10"},
    {"id": "h", "v": "9"}, {"id": "d", "v": "ä"}, {"id": "i", "v": True}, {"id": "j", "v": [1]}, {"id": "k", "v": 2.0},
]  # fmt: skip
_ASCENDING = ["a", "f", "c", "b", "k", "e", "g", "h", "d"]
"""Without booleans and lists, whose places the order leaves open."""


class DocumentQueryCases(DocumentCasesGround):
    # -- the filter language ----------------------------------------------------------------------------------

    @pytest.fixture(scope="class")
    @classmethod
    def tea(cls, given: Settings, shared: DocumentHouse) -> str:
        """A collection of one item."""
        shared.fill("filters~", _ITEM)
        return "filters~"

    @pytest.mark.parametrize("filter", _TRUE)
    def test_a_filter_that_is_true(self, house: DocumentHouse, tea: str, filter: str) -> None:
        assert house.query(tea, filter=filter) == ["k1"]

    @pytest.mark.parametrize("filter", _FALSE)
    def test_a_filter_that_is_not(self, house: DocumentHouse, tea: str, filter: str) -> None:
        assert house.query(tea, filter=filter) == []

    @pytest.mark.parametrize(("filter", "at"), _BAD, ids=lambda argument: str(argument)[:20])
    def test_a_filter_that_cannot_be_read_is_refused_where_it_fails(
        self, house: DocumentHouse, tea: str, filter: str, at: int | None
    ) -> None:
        refused = house.get(tea, f"filter={quote(filter)}")
        assert problem(refused) == (400, "bad-filter")
        if at is not None:
            assert f"character {at}" in refused.json()["detail"]
            assert "\n" + " " * (at + 1) + "^" in refused.json()["detail"]

    def test_a_hostile_pattern_is_answered(self, house: DocumentHouse, root: str) -> None:
        house.fill(f"{root}~", {"id": "1", "t": "a" * 3000 + "!"})
        assert house.query(f"{root}~", filter="t like '^(a+)+$'") == []
        assert house.query(f"{root}~", filter="t like '(a|a)*b'") == []

    # -- orders and pages -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("indexed", [False, True], ids=["scan", "index"])
    def test_one_order_across_types(self, house: DocumentHouse, root: str, indexed: bool) -> None:
        path = f"{root}~"
        house.fill(path, *_ORDER)
        if indexed:
            house.index(path, "up", sortBy=[{"fieldName": "v", "fieldType": "decimal"}])
            house.index(path, "down", sortBy=[{"fieldName": "v", "order": "desc"}])
        up, down = house.query(path, sort="v"), house.query(path, sort="-v")
        assert up[:9] == _ASCENDING
        assert set(up[9:]) == {"i", "j"}
        # Equal ones by id, ascending, in both.
        assert [id for id in down if id in "afbk"] == ["b", "k", "a", "f"]
        assert [id for id in down if id in _ASCENDING and id not in "afbk"] == ["d", "h", "g", "e", "c"]
        explained = house.get(path, "sort=v&explain=1").json()["explain"]
        assert explained["index"] == ("up" if indexed else None)
        pages: list[str] = []
        address = f"{path}?size=3&sort=-v"
        while address:
            page = house.get(*address.removeprefix("/hyper-storage/content/").split("?"))
            pages += items(page)
            address = page.links["next"]["url"] if "next" in page.links else ""
        assert pages == down

    def test_sorts_by_several_fields_as_the_seed_writes_them(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, *({"id": f"{a}{b}", "a": a, "b": b} for a in (1, 2) for b in (1, 2)))
        assert house.query(path, sort="a,-b") == ["12", "11", "22", "21"]
        assert items(house.get(path, "sort=+a,%2Bb")) == ["11", "12", "21", "22"]
        assert items(house.get(path, "sort= -a , -b ")) == ["22", "21", "12", "11"]
        assert house.query(path, sort="-id") == ["22", "21", "12", "11"]
        for wrong in ("-", "a,,b", "a b"):
            assert problem(house.get(path, f"sort={quote(wrong)}")) == (400, "bad-filter")

    def test_pages(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, *({"id": f"{number:03}"} for number in range(120)))
        assert len(house.query(path)) == 100
        assert items(house.get(path, 'size=50&id>"099"')) == [f"{number:03}" for number in range(100, 120)]
        assert items(house.get(path, "size=50&filter=id > '099'")) == [f"{number:03}" for number in range(100, 120)]
        first = house.get(path, "size=1&count=1")
        assert (first.json()["count"], first.headers["hyperbus-revision"]) == (120, "120")
        second = house.ask("GET", first.links["next"]["url"])
        house.put(f"{path}/0005", {})  # before the position: it is not told twice, nor does it move others
        assert items(second) == ["001"]
        assert "next" not in house.get(path, "size=500").links
        for wrong in ("size=0", "size=-1", "size=x", "cursor=x", "skipMax=-1", "nope=1"):
            assert problem(house.get(path, wrong)) == (400, "bad-input")
        assert problem(house.get(f"{path}/001", "filter=a")) == (400, "bad-input")
        assert problem(house.get(f"{root}/nothing~", "filter=a")) == (404, "not_found")

    # -- limits -----------------------------------------------------------------------------------------------

    def test_rows_that_are_passed_over_are_limited(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, *({"id": f"{number:03}", "n": number} for number in range(60)))
        refused = house.get(path, "filter=n >= 50&skipMax=49")
        assert problem(refused) == (504, "query-skipped-rows-limited")
        assert "49" in refused.json()["detail"]
        helpful = re.search(rf"POST ({INDEXES}/\S+) (\{{.*\}})", refused.json()["hint"])
        assert helpful is not None
        assert len(items(house.get(path, "filter=n >= 50&skipMax=50"))) == 10
        assert items(house.get(path, "filter=n >= 0&skipMax=0&size=2")) == ["000", "001"]
        made = house.ask("POST", helpful[1], msgspec.json.decode(helpful[2]))
        house.until(lambda: house.ask("GET", made.headers["location"]).json()["status"] == "ready")
        assert len(items(house.get(path, "filter=n >= 50&skipMax=0"))) == 10

    def test_reads_and_time_are_limited(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, *({"id": f"{number:04}", "n": number} for number in range(100)))
        with house.another(max_reads=1) as limited:
            refused = limited.get(path, "filter=n = 99&size=1")
            assert problem(refused) == (504, "query-count-limited")
            assert f"POST {INDEXES}/{path}" in refused.json()["hint"]
        with house.another(query_timeout=Duration(1)) as hasty:
            long = " and ".join(f"length(id + '{number}') > 0" for number in range(200))  # each is looked at, for every item
            refused = hasty.get(path, f"filter={quote(f'{long} and n = 99')}&size=1")
            assert problem(refused) == (504, "query-timeout")

    # -- indexes ----------------------------------------------------------------------------------------------

    def test_indexes_by_their_addresses(self, house: DocumentHouse, root: str) -> None:
        path, new = f"{root}/abc/xyz~", {"indexId": "one", "sortBy": [{"fieldName": "a"}], "filterBy": "a > 1"}
        vendor = "application/vnd.hyper-storage-index-new+json"
        made = house.ask(
            "POST", f"{INDEXES}/{quote(path.removesuffix('~'), safe='')}", content=msgspec.json.encode(new), Content_Type=vendor
        )
        assert (made.status_code, made.json()["indexId"], made.json()["path"]) == (201, "one", path)
        assert house.ask("GET", made.headers["location"]).json()["filterBy"] == "a > 1"
        assert problem(house.ask("POST", f"{INDEXES}/{path}", new)) == (409, "already-exists")
        assert house.ask("PUT", f"{INDEXES}/{path}/one", new).status_code == 200
        generated = house.ask("POST", f"{INDEXES}/{path}", {"sortBy": []}).json()["indexId"]
        listed = house.ask("GET", f"{INDEXES}/{path}").json()["items"]
        assert sorted(index["indexId"] for index in listed) == sorted(["one", generated])
        assert house.ask("DELETE", f"{INDEXES}/{path}/one").status_code == 204
        for method in ("DELETE", "GET"):
            assert problem(house.ask(method, f"{INDEXES}/{path}/none")) == (404, "index-not-found")
        assert problem(house.ask("DELETE", f"{INDEXES}/{path}/one")) == (404, "index-not-found")
        house.until(lambda: len(house.ask("GET", f"{INDEXES}/{path}").json()["items"]) == 1)

    @pytest.mark.parametrize(
        "new",
        [{"filterBy": "a >"}, {"sortBy": [{"fieldName": "a b"}]}, {"sortBy": [{"fieldName": "a", "order": "up"}]}, {"indexId": "a/b"}],
    )
    def test_an_index_that_cannot_be_is_refused_at_once(self, house: DocumentHouse, root: str, new: dict[str, Any]) -> None:
        assert house.ask("POST", f"{INDEXES}/{root}~", new).status_code == 400
        assert house.ask("GET", f"{INDEXES}/{root}~").json()["items"] == []

    def test_an_index_serves_what_the_scan_answers(self, house: DocumentHouse, root: str) -> None:
        """Before its items, built over them, and kept by every verb: of two fields, of unlike types, with a filter."""
        path = f"{root}~"
        house.index(path, "before", sortBy=[{"fieldName": "kind"}, {"fieldName": "n", "order": "desc", "fieldType": "decimal"}])
        house.fill(path, *({"id": f"{n:02}", "n": n, "kind": "even" if n % 2 == 0 else "odd"} for n in range(20)))
        house.index(path, "after", sortBy=[{"fieldName": "n", "fieldType": "decimal"}], filterBy="n > 5")
        house.patch(f"{path}/19", {"n": 7.5})
        house.delete(f"{path}/18")
        house.put(f"{path}/17", {"kind": "odd"})
        house.put(f"{path}/16", {"n": "text", "kind": 5})
        house.patch(f"{path}/15", {"n": None})
        house.post(path, {"n": 6, "kind": "even"})
        for filter, sort, index in [
            ("n > 5", "n", "after"), ("n > 10", "n", "after"), ("n > 5 and kind = 'odd'", "n", "after"), ("n = 12", "n", "after"),
            ("kind = 'odd'", "-n", "before"), ("", "kind,-n", "before"), ("kind = 'even' and n < 8", "-n", "before"),
        ]:  # fmt: skip
            query = f"sort={sort}&explain=1" + (f"&filter={quote(filter)}" if filter else "")
            page = house.get(path, query)
            assert page.json()["explain"]["index"] == index, (filter, sort)
            wanted = house.get(path, "size=1000").json()["_embedded"]["els"]
            assert {item["id"] for item in page.json()["_embedded"]["els"]} == {item["id"] for item in wanted if _accepts(filter, item)}, (
                filter
            )
        shown = house.ask("GET", f"{INDEXES}/{path}/before").json()
        assert shown["status"] == "ready"

    def test_a_collection_is_deleted_with_its_indexes(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.put(f"{path}/1", {"b": 1})
        house.index(path, "by-b", sortBy=[{"fieldName": "b"}])
        house.delete(path)
        indexes = house.ask("GET", f"{INDEXES}/{path}").json()["items"]
        assert [index["status"] for index in indexes] in ([], ["deleting"])  # its rows are removed in the background
        house.put(f"{path}/2", {"b": 2})
        assert house.get(path, "sort=b&explain=1").json()["explain"]["index"] is None
        house.index(path, "by-b", sortBy=[{"fieldName": "b"}])
        assert house.query(path, sort="b") == ["2"]

    def test_items_that_fit_no_index_hold_up_no_feed(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.index(path, "decimals", sortBy=[{"fieldName": "n", "fieldType": "decimal"}], filterBy="n + 1 > 0")
        for number, value in enumerate(["text", True, None, [1], {"a": 1}, 5], 1):
            assert told(house.put(f"{path}/{number}", {"n": value})) == (201, number)
        assert [change["revision"] for change in house.feed(path)] == list(range(1, 7))
        assert house.query(path, filter="n + 1 > 0") == ["6"]

    def test_an_index_may_hold_the_items(self, house: DocumentHouse, root: str) -> None:
        path = f"{root}~"
        house.fill(path, {"id": "a", "n": 2}, {"id": "b", "n": 1})
        house.index(path, "full", sortBy=[{"fieldName": "n"}], materialize=True)
        assert house.query(path, sort="n") == ["b", "a"]
        house.put(f"{path}/a", {"n": 0, "new": True})
        house.put(f"{path}/c", {"n": 3, "old": True})
        house.put(f"{path}/c", {"n": 3, "old": False})
        house.delete(f"{path}/b")
        answer = house.get(path, "sort=n&explain=1").json()
        assert answer["_embedded"]["els"] == [{"id": "a", "n": 0, "new": True}, {"id": "c", "n": 3, "old": False}]
        assert (answer["explain"]["index"], answer["explain"]["bodies"]) == ("full", "index")
        assert house.get(path, "explain=1").json()["explain"]["bodies"] == "collection"


def _accepts(filter: str, item: dict[str, Any]) -> bool:
    """What the filters of one case mean, written again."""
    n = item["n"] if isinstance(item.get("n"), int | float) else None
    kind = item.get("kind")
    return {
        "": True,
        "n > 5": n is not None and n > 5,
        "n > 10": n is not None and n > 10,
        "n > 5 and kind = 'odd'": n is not None and n > 5 and kind == "odd",
        "n = 12": n == 12,
        "kind = 'odd'": kind == "odd",
        "kind = 'even' and n < 8": kind == "even" and n is not None and n < 8,
    }[filter]
