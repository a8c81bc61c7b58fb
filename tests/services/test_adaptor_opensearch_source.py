"""The OpenSearch adaptor against a real OpenSearch: copying."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest
from opensearch_ground import held, message, numbered, opensearch_at, own_prefixes, write

from headwater.adaptors.opensearch.adaptor import OpenSearch
from headwater.core.errors import Differs, NotFound, Unsupported
from headwater.pipeline import values
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan
from headwater.pipeline.source_progress import CopySize
from headwater.testing.adaptor_contract import CopyContract


@pytest.fixture(scope="module")
def prefixes(opensearch: str) -> Iterator[Iterator[str]]:
    with own_prefixes(opensearch) as made:
        yield made


@pytest.fixture
def adaptor(opensearch: str, prefixes: Iterator[str]) -> OpenSearch:
    return opensearch_at(opensearch, index=f"{next(prefixes)}-{{namespace}}")


class TestCopy(CopyContract):
    @pytest.fixture
    def source(self, adaptor: OpenSearch) -> OpenSearch:
        write(adaptor, *numbered(50))
        return Only(**{name: getattr(adaptor, name) for name in adaptor.__struct_fields__ if name != "batch"}, batch=20)


class Only(OpenSearch, frozen=True, kw_only=True):
    """Of a server that others use too, the test's own indices alone."""

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return super().plan(Namespaces(f"^{self.index[:11]}-"), slices)

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        return super().check(role, Namespaces(f"^{self.index[:11]}-"))


def chosen(adaptor: OpenSearch) -> Namespaces:
    return Namespaces(f"^{adaptor.index[:11]}-")


def documents(adaptor: OpenSearch, plan: CopyPlan) -> list[dict[str, Any]]:
    return [values.decode(text) for one in plan.slices for piece in adaptor.read(one, None) for text in piece.values]


@pytest.mark.parametrize(("shards", "slices", "cut"), [(1, 1, 1), (1, 3, 3), (2, 3, 4), (3, 2, 3)])
def test_every_document_is_read_once_in_slices(adaptor: OpenSearch, shards: int, slices: int, cut: int) -> None:
    index = adaptor.index_for("orders")
    with adaptor.connect() as client:
        client.ask("PUT", f"/{index}", body={"settings": {"number_of_shards": shards, "number_of_replicas": 0}})
    write(adaptor, *numbered(60))
    small = msgspec.structs.replace(adaptor, batch=7)
    plan = small.plan(chosen(adaptor), slices)
    assert len(plan.slices) == cut
    assert {one.namespace for one in plan.slices} == {index}
    assert plan.size == CopySize(total=60, unit="documents", estimate=True)
    found = documents(small, plan)
    assert len(found) == 60
    assert {one["_id"]: one["n"] for one in found} == {f"o{n}": n for n in range(60)}
    assert documents(small, plan) == found


def test_reading_goes_on_behind_any_position(adaptor: OpenSearch) -> None:
    write(adaptor, *numbered(40))
    small = msgspec.structs.replace(adaptor, batch=7)
    plan = small.plan(chosen(adaptor), 2)
    for one in plan.slices:
        pieces = list(small.read(one, None))
        whole = [text for piece in pieces for text in piece.values]
        seen = 0
        for piece in pieces:
            seen += len(piece.values)
            position = msgspec.json.decode(msgspec.json.encode(piece.position))
            assert [text for later in small.read(one, position) for text in later.values] == whole[seen:]


def test_numbers_are_read_as_they_are_stored(adaptor: OpenSearch) -> None:
    write(adaptor, message(0, _id="a", price=Decimal("1.10"), long=2**62 + 1))
    assert documents(adaptor, adaptor.plan(chosen(adaptor), 1)) == [{"_id": "a", "price": Decimal("1.10"), "long": 2**62 + 1}]


def test_a_document_changed_during_the_copy_is_not_missed(adaptor: OpenSearch) -> None:
    write(adaptor, *numbered(20))
    small = msgspec.structs.replace(adaptor, batch=5)
    plan = small.plan(chosen(adaptor), 1)
    first = next(iter(small.read(plan.slices[0], None)))
    write(adaptor, message(50, op=Op.UPDATE, _id="o19", n=1900))
    with adaptor.connect() as client:
        client.ask("POST", f"/{adaptor.index_for('orders')}/_refresh")
    rest = [values.decode(text) for piece in small.read(plan.slices[0], first.position) for text in piece.values]
    assert {one["_id"]: one["n"] for one in rest} == {f"o{n}": n for n in range(5, 19)} | {"o19": 1900}


def test_an_index_made_anew_is_another_source(adaptor: OpenSearch) -> None:
    write(adaptor, *numbered(3))
    plan = adaptor.plan(chosen(adaptor), 1)
    assert adaptor.same(plan, chosen(adaptor))
    with adaptor.connect() as client:
        client.ask("DELETE", f"/{adaptor.index_for('orders')}")
    assert not adaptor.same(plan, chosen(adaptor))
    write(adaptor, *numbered(3))
    assert not adaptor.same(plan, chosen(adaptor))
    with pytest.raises(Differs):
        list(adaptor.read(plan.slices[0], None))


def test_what_check_tells(adaptor: OpenSearch) -> None:
    with pytest.raises(NotFound, match="no index"):
        adaptor.check("source", chosen(adaptor))
    write(adaptor, *numbered(3))
    with adaptor.connect() as client:
        client.ask("POST", f"/{adaptor.index_for('orders')}/_refresh")
    server, counted = adaptor.check("source", chosen(adaptor))
    assert server.startswith("OpenSearch 2.19.1 at 127.0.0.1:")
    assert counted == f"{adaptor.index_for('orders')}: 3 documents"
    assert len(adaptor.check("sink", chosen(adaptor))) == 1


def test_an_index_that_does_not_keep_its_documents_is_refused(adaptor: OpenSearch) -> None:
    with adaptor.connect() as client:
        client.ask("PUT", f"/{adaptor.index_for('orders')}", body={"mappings": {"_source": {"enabled": False}}})
    write(adaptor, *numbered(3))
    with pytest.raises(Unsupported, match="_source"):
        documents(adaptor, adaptor.plan(chosen(adaptor), 1))
    with pytest.raises(Unsupported, match="_source"):
        held(adaptor)


@pytest.mark.parametrize(("decimals", "read"), [("decimal", "[Decimal('1.25'), Decimal('1.20'), 7]"), ("float", "[1.25, 1.2, 7]")])
def test_numbers_with_a_point_are_of_one_type(adaptor: OpenSearch, decimals: Literal["decimal", "float"], read: str) -> None:
    write(adaptor, message(0, _id="1", a=Decimal("1.25"), b=Decimal("1.20"), c=7))
    source = msgspec.structs.replace(adaptor, decimals=decimals)
    [found] = documents(source, source.plan(chosen(adaptor), 1))
    assert repr([found["a"], found["b"], found["c"]]) == read
