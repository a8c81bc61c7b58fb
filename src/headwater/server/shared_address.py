"""The OpenAPI description of one method and path that several operations share: the client's Accept chooses among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.wire.operation import Operation

OPERATIONS = "x-operations"  # each operation's own description, by the type of its answer


def shared(operations: Sequence[Operation[Any, Any]], described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One description of all of them. `described`: theirs, in the same order; the first answers a client that accepts anything.

    The operation's id is that of the first. A parameter that not all of them take says for which type of answer it counts.
    """
    ways = {operation.media: dict(description) for operation, description in zip(operations, described, strict=True)}
    first = described[0]
    merged: dict[str, Any] = {
        **first,
        "summary": " ".join(_summary(media, way["summary"], first) for media, way in ways.items()),
        "parameters": _parameters(ways),
        "responses": _responses(described),
        OPERATIONS: ways,
    }
    security: list[Any] = []
    for description in described:
        security += [choice for choice in description.get("security", ()) if choice not in security]
    return {**merged, "security": security} if security else merged


def _summary(media: str, summary: str, first: Mapping[str, Any]) -> str:
    return summary if summary == first["summary"] else f"With Accept: {media}: {summary}"


def _parameters(ways: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every parameter once."""
    takers: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for media, way in ways.items():
        for parameter in way["parameters"]:
            takers.setdefault((parameter["in"], parameter["name"]), {})[media] = parameter
    return [_parameter(by_media, everywhere=len(by_media) == len(ways)) for by_media in takers.values()]


def _parameter(by_media: Mapping[str, dict[str, Any]], *, everywhere: bool) -> dict[str, Any]:
    """A parameter as all that take it describe it."""
    parameters = list(by_media.values())
    if everywhere and all(parameter == parameters[0] for parameter in parameters):
        return parameters[0]
    schemas: list[Any] = []
    texts: dict[str, list[str]] = {}
    for media, parameter in by_media.items():
        schemas += [parameter["schema"]] if parameter["schema"] not in schemas else []
        texts.setdefault(parameter.get("description", ""), []).append(media)
    if everywhere and len(texts) == 1:
        text = next(iter(texts))
    else:
        text = " ".join(f"{words} (Accept: {' or '.join(media)})".strip() for words, media in texts.items())
    return {
        **parameters[0],
        "required": everywhere and all(parameter["required"] for parameter in parameters),
        "schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas},
        "description": text,
    }


def _responses(described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every status once, with the content of each that answers so."""
    merged: dict[str, dict[str, Any]] = {}
    for description in described:
        for status, answer in description["responses"].items():
            response = merged.setdefault(status, dict(answer))
            if answer["description"] not in response["description"]:
                response["description"] = f"{response['description']} {answer['description']}"
            if "content" in answer:
                response["content"] = {**response.get("content", {}), **answer["content"]}
    return dict(sorted(merged.items()))
