"""Writes the tables of docs/reference/http.md and python.md from the tables of operations and the door: `python -m tools.reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headwater import parts
from headwater.client.collection_indexes import CollectionIndexes
from headwater.client.collection_schema import CollectionSchema
from headwater.client.collection_views import CollectionViews
from headwater.client.document_resource import Resource
from headwater.client.documents import Documents
from headwater.client.index_templates import IndexTemplates
from headwater.client.journal import Journal
from headwater.client.journal_snapshots import JournalSnapshots
from headwater.client.journals import Journals, TopicJournals
from headwater.client.log import AsyncLog
from headwater.client.pipelines import OnePipeline
from headwater.client.queue import OneQueue, Queues
from headwater.client.wal import OneRegion, WalNamespace
from headwater.journal.aggregate import Repository
from headwater.server.own import OWN
from headwater.wire.operation import Operation
from headwater.wire.request import shape_of

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
DOORS: dict[str, type] = {
    "hw.log": AsyncLog,
    "hw.pipelines": OnePipeline,
    "hw.queue": Queues,
    "a queue": OneQueue,
    "hw.wal": WalNamespace,
    "a region": OneRegion,
    "hw.journals": Journals,
    "a topic of journals": TopicJournals,
    "a journal": Journal,
    "snapshots of a journal": JournalSnapshots,
    "a repository": Repository,
    "hw.documents": Documents,
    "a path of documents": Resource,
    "indexes of a collection": CollectionIndexes,
    "templates of indexes": IndexTemplates,
    "schema of a collection": CollectionSchema,
    "views of documents": CollectionViews,
}


def http_page(written: str) -> str:
    """The page of HTTP with its table as it should be."""
    return _replaced(written, "addresses", _addresses([*OWN, *parts.operations()]))


def python_page(written: str) -> str:
    """The page of Python with its tables as they should be."""
    for name, offered in DOORS.items():
        written = _replaced(written, name, _calls(offered))
    return written


def _addresses(operations: Iterable[Operation[Any, Any]]) -> str:
    rows, seen = ["| address | role | what it does |", "|---|---|---|"], set[str]()
    for operation in operations:
        shape, address = shape_of(operation), f"{operation.method} {operation.path}"
        names = ", ".join(f"`{name}`" for name in [*shape.query, *(parameter.name for parameter in shape.paging)])
        role = operation.role.name.lower().replace("nobody", "none")
        chosen = f", `Accept: {operation.media}`" if address in seen else ""
        rows.append(f"| `{address}`{chosen} | {role} | {operation.says}{f' {names}.' if names else ''} |")
        seen.add(address)
    return "\n".join(rows)


def _calls(offered: type) -> str:
    rows = ["| call | what it does |", "|---|---|"]
    for name, call in vars(offered).items():
        if name.startswith("_") or not inspect.isfunction(call) or name == "aclose":
            continue
        summary = " ".join((inspect.getdoc(call) or "").split("\n\n")[0].split())
        rows.append(f"| `{name}({_signature(call)})` | {summary} |")
    return "\n".join(rows)


def _signature(call: Any) -> str:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty) for parameter in list(inspect.signature(call).parameters.values())[1:]
    ]
    return str(inspect.Signature(parameters))[1:-1].replace("'", '"')


def _replaced(written: str, mark: str, table: str) -> str:
    begin, end = f"<!-- {mark}: written by `python -m tools.reference` -->", f"<!-- end of {mark} -->"
    match = re.search(f"{re.escape(begin)}\n.*?{re.escape(end)}", written, re.DOTALL)
    assert match is not None, f"the page lacks {begin}"
    return written.replace(match[0], f"{begin}\n{table}\n{end}")


if __name__ == "__main__":
    for page, make in (("http.md", http_page), ("python.md", python_page)):
        path = REFERENCE / page
        path.write_text(make(path.read_text("utf-8")), "utf-8")
