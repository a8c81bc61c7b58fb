"""`/openapi.json`, made from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from headwater.client.problems import MEDIA_TYPE
from headwater.server.operation import Operation, Role
from headwater.server.schemas import COMPONENTS

_PROBLEMS = {
    400: "The request cannot be done as asked; nothing changed.",
    401: "The token is missing or unknown.",
    403: "The token's role may not do this, or a page of another site asked.",
    404: "It does not exist, and asking has not created it.",
    409: "Somebody else was first; nothing changed.",
    410: "The offset was deleted.",
    413: "The body or the record is too large.",
    415: "The type of the body is not read here.",
    422: "It has the right form and does not fit what is there: an offset beyond the end, or a message that a sink refuses.",
    503: "Not now: the hint says what to do before trying again. With code outcome-unknown the write may or may not be there.",
    504: "A system that was asked did not answer in time.",
    507: "The disk is full: nothing was appended, reading goes on.",
}
_PATH = {
    "topic": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$"},
    "partition": {"type": "integer", "minimum": 0},
    "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
    "sink": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
    "offset": {"type": "integer", "minimum": 0},
}


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 description of the operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
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
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "Needed when the server has a token file."}},
        },
    }


def _described(operation: Operation) -> dict[str, Any]:
    answers: dict[str, Any] = {str(status): _answer(answer.text, answer.content) for status, answer in operation.answers.items()}
    for status in _problems(operation):
        answers[str(status)] = _answer(_PROBLEMS[status], {MEDIA_TYPE: {"$ref": "#/components/schemas/Problem"}})
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.text,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _PATH[name]} for name in re.findall(r"{(\w+)}", operation.path)),
            *(param.schema() for param in operation.query),
            *({**param.schema(), "name": name, "in": "header"} for name, param in operation.headers.items()),
        ],
        "responses": answers,
        "x-role": operation.role.name.lower(),
    }
    if operation.role is not Role.NOBODY:
        described["security"] = [{}, {"token": []}]
    if operation.body:
        content = {kind: {"schema": schema} for kind, schema in operation.body.items()}
        described["requestBody"] = {"content": content, "required": operation.body_required}
    return described


def _problems(operation: Operation) -> list[int]:
    usual = {400, *operation.problems}
    if operation.role is not Role.NOBODY:
        usual |= {401, 403}
    if "{topic}" in operation.path or "{name}" in operation.path:
        usual |= {404, 422, 503}
    if operation.body:
        usual |= {413, 415}
    return sorted(usual)


def _answer(text: str, content: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": text}
    if content:
        answer["content"] = {kind: {"schema": schema} for kind, schema in content.items()}
    return answer
