"""The operations on schemas of collections: a part of the table in `headwater.documents.operations`."""

from __future__ import annotations

from typing import Any, Final

from headwater.core.document_errors import BadPath, DocumentNotFound, ViewModification
from headwater.core.errors import Busy, Damaged, DiskFull, Fenced, NotOwner, OutcomeUnknown, TooLarge, Unavailable
from headwater.documents import schema_requests
from headwater.wire.operation import Operation, Role

_SCHEMA = "/hyper-storage/schemas/{path}"
_READS = (BadPath, DocumentNotFound, Damaged, Unavailable)
_WRITES = (*_READS, Busy, DiskFull, Fenced, NotOwner, OutcomeUnknown)
_ANY: Final[dict[str, Any]] = {"description": "A JSON Schema, of draft 2020-12.", "type": ["object", "boolean"]}


def _send(request: schema_requests.PutSchema) -> tuple[str, bytes]:
    return "application/json", request.body


SCHEMA_GET = Operation(
    part="documents",
    name="schema_get",
    method="GET",
    path=_SCHEMA,
    request=schema_requests.SchemaRequest,
    answer=schema_requests.ShownSchema,
    role=Role.READER,
    says="The schema of a collection.",
    commands={"schema show {path}": ""},
    errors=_READS,
)
SCHEMA_PUT = Operation(
    part="documents",
    name="schema_put",
    method="PUT",
    path=_SCHEMA,
    request=schema_requests.PutSchema,
    answer=schema_requests.ShownSchema,
    role=Role.OPERATOR,
    changes=True,
    says="Give a collection a schema: from now on writes of items that do not fit it are 422. Items that are there stay.",
    statuses={200: "The collection has it.", 201: "It has it, and had none before."},
    content={"application/json": _ANY, "application/schema+json": _ANY},
    sends=_send,
    commands={"schema put {path}": ""},
    errors=(*_WRITES, ViewModification, TooLarge),
)
SCHEMA_DELETE: Operation[schema_requests.DeleteSchema, None] = Operation(
    part="documents",
    name="schema_delete",
    method="DELETE",
    path=_SCHEMA,
    request=schema_requests.DeleteSchema,
    answer=None,
    role=Role.OPERATOR,
    changes=True,
    says="Take the schema of a collection away.",
    commands={"schema delete {path}": ""},
    errors=_WRITES,
)
SCHEMAS = (SCHEMA_GET, SCHEMA_PUT, SCHEMA_DELETE)
