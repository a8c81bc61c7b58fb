"""Where the questions about a pipeline are asked over HTTP: the server routes by it, and the client asks by it."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """Where a question is asked. What the path does not name goes into the body of a PUT or POST, otherwise into the query."""

    method: str
    path: str


_ONE = "/pipelines/{name}"
ADDRESSES = {
    "status": Address("GET", _ONE),
    "messages": Address("GET", f"{_ONE}/log"),
    "offsets": Address("GET", f"{_ONE}/offsets"),
    "offset": Address("GET", f"{_ONE}/offsets/{{sink}}"),
    "mark": Address("PUT", f"{_ONE}/offsets/{{sink}}"),
    "delete": Address("DELETE", f"{_ONE}/offsets/{{sink}}"),
    "step": Address("POST", f"{_ONE}/sinks/{{sink}}/step"),
    "ack": Address("POST", f"{_ONE}/sinks/{{sink}}/ack"),
    "replay": Address("POST", f"{_ONE}/sinks/{{sink}}/replay"),
    "edit": Address("PUT", f"{_ONE}/edits/{{offset}}"),
    "undo": Address("DELETE", f"{_ONE}/edits/{{offset}}"),
    "dead": Address("GET", f"{_ONE}/dead"),
    "dead_one": Address("GET", f"{_ONE}/dead/{{offset}}"),
    "retry": Address("POST", f"{_ONE}/dead/{{offset}}/retry"),
    "drop": Address("DELETE", f"{_ONE}/dead/{{offset}}"),
    "compact": Address("POST", f"{_ONE}/compact"),
    "stop": Address("POST", f"{_ONE}/stop"),
    "audit": Address("GET", f"{_ONE}/audit"),
    "verify": Address("GET", f"{_ONE}/verify/{{sink}}"),
}
QUERY_NAMES = {"first": "from", "last": "to"}  # as they stand in a query
