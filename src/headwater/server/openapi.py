"""`/openapi.json`, made from the tables of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, get_args, get_origin

import msgspec

from headwater.client.jobs import JobStatus
from headwater.core.errors import BadInput, BadType, Denied, Forbidden, HeadwaterError, TooLarge
from headwater.server.shared_address import shared
from headwater.wire.operation import Operation, Role
from headwater.wire.problems import MEDIA_TYPE, Problem
from headwater.wire.request import shape_of

_REF = "#/components/schemas/{name}"
ITEM = "x-item"  # the schema of what a stream is made of, and of what a job answers with
_PROBLEMS = {
    400: "The request cannot be done as asked; nothing changed.",
    401: "The token is missing or unknown.",
    403: "The token's role may not do this, or a page of another site asked.",
    404: "It does not exist, and asking has not created it.",
    405: "What is there does not take this method.",
    409: "Somebody else was first; nothing changed.",
    410: "The offset was deleted.",
    412: "It is not as the request's condition says; nothing changed.",
    413: "The body or the record is too large.",
    415: "The type of the body is not read here.",
    421: "Another process owns it; the hint says where.",
    422: "It has the right form and does not fit what is there: an offset beyond the end, or a message that a sink refuses.",
    500: "Stored bytes are not what was written, or headwater itself is at fault; the hint says what to do.",
    503: "Not now: the hint says what to do before trying again. With code outcome-unknown the write may or may not be there.",
    504: "A system that was asked did not answer in time.",
    507: "The disk is full: nothing was appended, reading goes on.",
}


class Components:
    """The schemas of structs by their names. Two structs of one name are an error."""

    def __init__(self) -> None:
        self._structs: dict[str, type] = {}
        self._known: dict[Any, dict[str, Any]] = {}
        self.schemas: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type; structs inside it become components."""
        if kind not in self._known:  # most answers can be the same problems
            self._known[kind] = self._looked_at(kind)
        return deepcopy(self._known[kind])

    def _looked_at(self, kind: Any) -> dict[str, Any]:
        (schema,), shapes = msgspec.json.schema_components([kind], ref_template=_REF)
        for struct in _structs(kind):
            existing = self._structs.setdefault(struct.__name__, struct)
            if existing is not struct:
                raise TypeError(f"Two structs are named {struct.__name__}: {existing.__module__} and {struct.__module__}")
        for name, shape in shapes.items():
            shape.pop("title", None)
            self.schemas[name] = shape
        return schema

    def filled(self, schema: Any) -> Any:
        """A hand-written schema, with `{"$struct": Struct}` replaced by a reference."""
        if isinstance(schema, dict):
            reference = self.of(schema["$struct"]) if "$struct" in schema else {}
            return {**{name: self.filled(value) for name, value in schema.items() if name != "$struct"}, **reference}
        return [self.filled(item) for item in schema] if isinstance(schema, list) else schema


def document(operations: Iterable[Operation[Any, Any]], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 description of the operations. Errors: `TypeError` for two structs, or two operations, of one name."""
    components, addresses = Components(), dict[tuple[str, str], list[Operation[Any, Any]]]()
    components.of(Problem)
    names: set[str] = set()
    for operation in operations:
        if operation.id in names:
            raise TypeError(f"Two operations are named {operation.id}")
        names.add(operation.id)
        addresses.setdefault((operation.path, operation.method.lower()), []).append(operation)
    paths: dict[str, dict[str, Any]] = {}
    for (path, method), sharing in addresses.items():
        described = [_described(operation, components) for operation in sharing]
        paths.setdefault(path, {})[method] = described[0] if len(sharing) == 1 else shared(sharing, described)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "headwater",
            "version": version,
            "summary": "One log at the source; everything downstream is rebuilt from it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.schemas.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Needed when the server has a token file."},
                "ticket": {"type": "apiKey", "in": "query", "name": "ticket", "description": "Of POST /tickets, for this address."},
            },
        },
    }


def _described(operation: Operation[Any, Any], components: Components) -> dict[str, Any]:
    shape = shape_of(operation)
    parameters = [*shape.path.values(), *shape.query.values(), *shape.paging, *shape.headers]
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.says,
        "tags": [operation.part],
        "parameters": [parameter.schema() for parameter in parameters],
        "responses": _responses(operation, components),
        "x-role": operation.role.name.lower(),
    }
    if operation.role is not Role.NOBODY:
        described["security"] = [{}, {"token": []}, *([{"ticket": []}] if operation.kind == "stream" else ())]
    if shape.body is not None:
        content = {"application/json": {"schema": components.of(shape.body)}}
        required = any(field.required for field in msgspec.structs.fields(shape.body))
        described["requestBody"] = {"content": content, "required": required}
    elif operation.content:
        content = {media: {"schema": components.filled(schema)} for media, schema in operation.content.items()}
        described["requestBody"] = {"content": content, "required": operation.content_required}
    return described


def _responses(operation: Operation[Any, Any], components: Components) -> dict[str, Any]:
    content = _content(operation, components)
    texts = operation.statuses or {202 if operation.kind == "job" else 204 if operation.answer is None else 200: _said(operation)}
    responses: dict[str, Any] = {
        str(status): {"description": text, **({"content": content} if content and status not in (204, 304) else {})}
        for status, text in texts.items()
    }
    for status in sorted({error.status for error in _errors(operation)}):
        responses[str(status)] = {"description": _PROBLEMS[status], "content": {MEDIA_TYPE: {"schema": components.of(Problem)}}}
    return responses


def _errors(operation: Operation[Any, Any]) -> set[type[HeadwaterError]]:
    usual: set[type[HeadwaterError]] = {BadInput, *operation.errors}
    if operation.role is not Role.NOBODY:
        usual |= {Denied, Forbidden}
    if shape_of(operation).body is not None or operation.content:
        usual |= {TooLarge, BadType}
    return usual


def _content(operation: Operation[Any, Any], components: Components) -> dict[str, Any]:
    answer = operation.answer
    if operation.kind == "job":
        described = {} if answer is None else {ITEM: components.of(answer)}
        return {"application/json": {"schema": {**components.of(JobStatus), **described}}}
    if answer is None:
        return {}
    if operation.reads is not None:  # the answer's struct holds headers, too
        return {operation.media: {"schema": {"description": "Any JSON."}}}
    if operation.kind == "stream":
        item = getattr(answer, "__name__", "item")
        text = f"Events whose data is a {item}; `: ping` each 15 seconds." if "event" in operation.media else f"One {item} a line."
        return {operation.media: {"schema": {"type": "string", "description": text, ITEM: components.of(answer)}}}
    if answer is bytes:
        return {operation.media: {"schema": {"type": "string"}}}
    if get_origin(answer) is list:
        (item,) = get_args(answer)
        following = {"description": "Null at the end; otherwise what to give as `cursor` to go on.", "type": ["string", "null"]}
        return {
            operation.media: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "items": {"type": "array", "items": components.of(item)},
                        "next": following if operation.paging else {"type": "null"},
                    },
                    "required": ["items", "next"],
                    "additionalProperties": False,
                }
            }
        }
    return {operation.media: {"schema": components.of(answer)}}


def _said(operation: Operation[Any, Any]) -> str:
    """The docstring of the answer's class."""
    answer = operation.answer
    if operation.kind == "job":
        return "It runs; the header Location leads to it."
    if answer is None:
        return "Done."
    if get_origin(answer) is list:
        return "A page of them; the Link header leads to the next." if operation.paging else "All of them."
    text = (answer.__doc__ or "").strip() if isinstance(answer, type) and issubclass(answer, msgspec.Struct) else ""
    return re.split(r"(?<=[.:]) |\n", text)[0] or ("Items as they come." if operation.kind == "stream" else "The answer.")


def _structs(kind: Any) -> set[type]:
    """Every struct in a type."""
    structs: set[type] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    seen_ids: set[int] = set()
    while waiting:
        info = waiting.pop()
        if id(info) in seen_ids:
            continue
        seen_ids.add(id(info))
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in structs:
                continue
            structs.add(info.cls)
        waiting += _inside(info)
    return structs


def _inside(info: Any) -> list[Any]:
    match info:
        case msgspec.inspect.StructType():
            return [field.type for field in info.fields]
        case msgspec.inspect.UnionType():
            return list(info.types)
        case msgspec.inspect.Metadata():
            return [info.type]
        case msgspec.inspect.DictType():
            return [info.key_type, info.value_type]
        case msgspec.inspect.TupleType():
            return list(info.item_types)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType() | msgspec.inspect.SetType():
            return [info.item_type]
    return []
