"""The schema of a collection: it is in the collection's settings, `{"schema": …}`, and the owner checks every write of an item by it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from headwater.core.document_errors import DocumentNotFound, ViewModification
from headwater.core.errors import TooLarge
from headwater.documents.body import ID, read_body, state_value
from headwater.documents.calls import SettingsCall
from headwater.documents.schema.validation import JsonSchema
from headwater.wire import json

MOST_BYTES: Final = 32 << 10
"""Of a schema: it is in the head of its collection, which is written with every change."""


def read_schema(body: bytes) -> Any:
    """The schema of a body. Errors: `BadInput` for what is no schema, or has a keyword that is not known; `TooLarge`."""
    if len(body) > MOST_BYTES:
        raise TooLarge(f"The schema has {len(body)} bytes.", hint=f"A schema has at most {MOST_BYTES}.")
    schema = read_body(body)
    JsonSchema(schema)
    return schema


def schema_in(settings: bytes, uri: str) -> bytes:
    """The schema in the settings of a collection. Errors: `DocumentNotFound` where there is none."""
    schema = _schema(settings)
    if schema is None:
        raise DocumentNotFound(f"{uri} has no schema.", hint=f"Give it one with `headwater doc schema put {uri} '{{...}}'`.")
    return json.encode(schema)


def new_schema(uri: str, schema: Any) -> SettingsCall:
    """Give a collection a schema, in place of the one that it has. Nothing changes where it has this one. Errors of the call:
    `ViewModification`."""

    def decide(stored_settings: bytes) -> bytes | None:
        settings = _settings(stored_settings)
        if settings.get("view"):
            raise ViewModification(f"{uri} is a view: it shows other documents.", hint="Give those a schema.")
        return None if settings.get("schema") == schema else json.encode({**settings, "schema": schema})

    return SettingsCall(uri, decide)


def no_schema(uri: str) -> SettingsCall:
    """Take the schema of a collection away."""

    def decide(stored_settings: bytes) -> bytes | None:
        settings = _settings(stored_settings)
        return json.encode({name: value for name, value in settings.items() if name != "schema"}) if "schema" in settings else None

    return SettingsCall(uri, decide)


def check_item(settings: bytes, path: str, value: dict[str, Any]) -> None:
    """See that an item fits the schema of its collection, where it has one. Its id is checked where the schema names it. Errors:
    `UnfitBody`, which names the field."""
    if b'"schema"' in settings and (schema := _compiled(settings)) is not None:
        schema.check(value if schema.names(ID) else {name: inner for name, inner in value.items() if name != ID}, path)


@lru_cache(maxsize=256)
def _compiled(settings: bytes) -> JsonSchema | None:
    schema = None if _settings(settings).get("view") else _schema(settings)
    return None if schema is None else JsonSchema(schema)


def _schema(settings: bytes) -> Any:
    return _settings(settings).get("schema")


def _settings(settings: bytes) -> dict[str, Any]:
    fields = state_value(settings) if settings else {}
    return fields if isinstance(fields, dict) else {}
