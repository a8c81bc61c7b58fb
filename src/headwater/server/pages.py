"""HTML pages: the front page, and every address with its parameters and answers. They load nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from headwater.server.openapi import ITEM
from headwater.server.shared_address import OPERATIONS

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "code{font:14px/1.4 ui-monospace,monospace;background:#f2f4f5;border-radius:3px;padding:.1em .3em}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3em .6em;border-bottom:1px solid #ddd}"
    "summary{cursor:pointer;padding:.3em 0}details{border-bottom:1px solid #ddd}"
    ".method{display:inline-block;min-width:4.5em;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#16181a}code{background:#25292c}td,th,details{border-color:#3a3f43}a{color:#7db8ff}}"
)


class ServedPart(NamedTuple):
    """A part as the front page shows it. `topics`: how many topics of the log hold it; None: not told."""

    name: str
    address: str
    topics: int | None


def front_page(version: str, engine: str, served: Iterable[ServedPart] = (), *, data: str = "") -> str:
    """The front page. `data`: the name of the data directory; empty: not told."""
    of = f" of <code>{escape(data)}</code>" if data else ""
    rows = "".join(_served(part) for part in served)
    return _page(
        "headwater",
        f"<h1>headwater</h1><p>Version {escape(version)}, {escape(engine)} log{of}. One log at the source; everything downstream is "
        f"rebuilt from it.</p><table>{rows}</table><ul>"
        '<li><a href="docs">Every address</a>, also as <a href="openapi.json">OpenAPI</a></li>'
        '<li><a href="healthz">healthz</a>, <a href="readyz">readyz</a>, <a href="metrics">metrics</a></li></ul>'
        "<p>From a terminal: <code>headwater --help</code>. From Python: <code>headwater.open</code> with this address.</p>",
    )


def _served(part: ServedPart) -> str:
    topics = "" if part.topics is None else f"{part.topics:,} topic{'' if part.topics == 1 else 's'}"
    name, address = escape(part.name), escape(part.address)
    return f'<tr><td><a href="docs#{name}">{name}</a></td><td><code>{address}</code></td><td>{topics}</td></tr>'


def reference_page(document: Mapping[str, Any]) -> str:
    """Every address, from the OpenAPI description."""
    info = document["info"]
    parts = [f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['summary'])}</p>"]
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for media, way in operation.get(OPERATIONS, {"": operation}).items():
                tags.setdefault(operation["tags"][0], []).append(_operation(path, method, way, media))
    for tag, operations in tags.items():
        parts.append(f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(operations)}')
    parts.append("<h2>Shapes</h2>")
    parts += [_shape(name, schema) for name, schema in document["components"]["schemas"].items()]
    return _page(f"{info['title']}: every address", "".join(parts))


def _operation(path: str, method: str, operation: Mapping[str, Any], media: str) -> str:
    """`media`: the Accept that chooses it, where several operations share the address."""
    rows = "".join(_parameter(part) for part in operation["parameters"])
    table = f"<table><tr><th>parameter</th><th>in</th><th>what it is</th></tr>{rows}</table>" if rows else ""
    chosen = f"<p>With <code>Accept: {escape(media)}</code></p>" if media else ""
    ticket = "; opened with a ticket, too" if {"ticket": []} in operation.get("security", ()) else ""
    body = operation.get("requestBody", {}).get("content", {})
    sent = "".join(f"<p>Body, <code>{escape(kind)}</code>: {_kind(part['schema'])}</p>" for kind, part in body.items())
    answers = "".join(_answer(status, part) for status, part in operation["responses"].items())
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="method">{method.upper()}</span> '
        f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary><p>Role: {escape(operation['x-role'])}{ticket}</p>"
        f"{chosen}{table}{sent}<table>{answers}</table></details>"
    )


def _parameter(parameter: Mapping[str, Any]) -> str:
    needed = " (needed)" if parameter["required"] else ""
    description = escape(parameter.get("description", ""))
    name, place, kind = escape(parameter["name"]), escape(parameter["in"]), _kind(parameter["schema"])
    return f"<tr><td><code>{name}</code>{needed}</td><td>{place}</td><td>{description} {kind}</td></tr>"


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    kinds = ", ".join(f"<code>{escape(kind)}</code> {_kind(one['schema'])}" for kind, one in answer.get("content", {}).items())
    return f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])} {kinds}</td></tr>"


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    fields = "".join(_field(field, one, field in schema.get("required", [])) for field, one in schema.get("properties", {}).items())
    return (
        f'<details id="shape-{escape(name)}"><summary><code>{escape(name)}</code> {escape(schema.get("description", ""))}</summary>'
        f"<table>{fields}</table></details>"
    )


def _field(name: str, schema: Mapping[str, Any], needed: bool) -> str:
    description = escape(schema.get("description", ""))
    return f"<tr><td><code>{escape(name)}</code>{' (needed)' if needed else ''}</td><td>{_kind(schema)} {description}</td></tr>"


def _kind(schema: Mapping[str, Any]) -> str:
    """A short text for a schema, with links to the components that it names."""
    return " or ".join(_words(schema)) or "any JSON"


def _words(schema: Mapping[str, Any]) -> Iterator[str]:
    if ITEM in schema:
        outer = {name: value for name, value in schema.items() if name != ITEM}
        yield f"{_kind(outer)}, of {_kind(schema[ITEM])}"
    elif "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        yield f'<a href="#shape-{name}">{name}</a>'
    elif "enum" in schema:
        yield ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    elif "anyOf" in schema:
        for choice in schema["anyOf"]:
            yield from _words(choice)
    elif "items" in schema.get("properties", {}):
        yield f"a page, its <code>items</code> {_kind(schema['properties']['items'])}"
    elif schema.get("type") == "array" and "items" in schema and schema["items"]:
        yield f"a list of {_kind(schema['items'])}"
    elif "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        least, most = schema.get("minimum"), schema.get("maximum")
        span = f" from {least}" if least is not None else ""
        span += f" to {most}" if most is not None and most < 1 << 53 else ""
        yield " or ".join(escape(kind) for kind in kinds) + span


def _page(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'
