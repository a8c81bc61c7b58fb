"""A real OpenSearch."""

from __future__ import annotations

import uuid

import pytest
from opensearchpy import OpenSearch
from tools.services import up
from tools.services.jars import Jars
from tools.services.private import PrivateServers


def index_and_search(uri: str, index: str, *, write: bool) -> list[tuple[str, int]]:
    with OpenSearch(uri) as client:
        if write:
            for number in range(10):
                client.index(index=index, id=f"order-{number}", body={"amount": number})
        client.indices.refresh(index=index)
        found = client.search(index=index, body={"size": 100, "sort": ["amount"], "query": {"match_all": {}}})
        return [(hit["_id"], hit["_source"]["amount"]) for hit in found["hits"]["hits"]]


def test_what_was_written_is_found(opensearch: str) -> None:
    assert index_and_search(opensearch, f"services-{uuid.uuid4().hex}", write=True) == [(f"order-{number}", number) for number in range(10)]


def test_a_second_up_finds_it(opensearch: str) -> None:
    running = up("opensearch", kept=False)
    assert running.found == {"opensearch"}
    assert running.opensearch == opensearch


@pytest.mark.soak  # the tests of what uses it kill one, too
def test_a_node_that_was_killed_comes_back_with_its_data(private_servers: PrivateServers) -> None:
    running = private_servers.up("opensearch")
    rows = index_and_search(running.opensearch, "orders", write=True)
    running.kill("search-1")
    running.restart("search-1")
    assert index_and_search(running.opensearch, "orders", write=False) == rows


def test_the_committed_list_is_whole() -> None:
    assert len(Jars.listed("opensearch").jars) > 40
