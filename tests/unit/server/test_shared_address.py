"""Where the Accept header chooses among operations of one address, the description holds all of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from headwater import parts
from headwater.journal.operations import JOURNAL
from headwater.server.openapi import document
from headwater.server.own import OWN
from headwater.wire.operation import Operation
from headwater.wire.request import shape_of

EVERY = [*OWN, *parts.operations()]


def sharing() -> list[list[Operation[Any, Any]]]:
    found: dict[tuple[str, str], list[Operation[Any, Any]]] = defaultdict(list)
    for operation in EVERY:
        found[operation.method, operation.path].append(operation)
    return [operations for operations in found.values() if len(operations) > 1]


@pytest.mark.parametrize("operations", sharing(), ids=lambda operations: operations[0].id)
def test_a_shared_address_describes_each_of_its_operations(operations: list[Operation[Any, Any]]) -> None:
    described = document(EVERY, "1")["paths"][operations[0].path][operations[0].method.lower()]
    parameters = {(parameter["in"], parameter["name"]): parameter for parameter in described["parameters"]}
    assert len(parameters) == len(described["parameters"])
    assert described["operationId"] == operations[0].id
    for operation in operations:
        shape = shape_of(operation)
        own = described["x-operations"][operation.media]
        assert (own["operationId"], own["summary"]) == (operation.id, operation.says)
        assert operation.says in described["summary"]
        taken = {
            (parameter.place, parameter.name) for parameter in [*shape.path.values(), *shape.query.values(), *shape.paging, *shape.headers]
        }
        assert taken == {(parameter["in"], parameter["name"]) for parameter in own["parameters"]} <= set(parameters)
        for name in set(parameters) - taken:
            assert f"Accept: {operation.media}" not in parameters[name]["description"]
            assert "Accept: " in parameters[name]["description"]
        assert operation.media in described["responses"]["200"]["content"]
        assert all(choice in described["security"] for choice in own["security"])
        assert set(own["responses"]) <= set(described["responses"])


def test_the_events_of_a_topic_of_journals_are_described_beside_its_ids() -> None:
    described = document(JOURNAL.operations, "1")["paths"]["/journals/{topic}"]["get"]
    parameters = {parameter["name"]: parameter for parameter in described["parameters"]}
    assert {"tags", "ids", "copied", "Last-Event-ID", "limit"} <= set(parameters)
    assert parameters["tags"]["description"].endswith("(Accept: text/event-stream)")
    assert {"ticket": []} in described["security"]
