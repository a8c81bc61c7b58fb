"""Bodies of documents' operations as they travel over HTTP: their media types, and how they are read and sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import unquote_plus

import msgspec

from headwater.core.errors import BadInput
from headwater.documents.answers import StoredContent
from headwater.documents.etag import etag
from headwater.documents.index_requests import HyperStorageIndexNew, HyperStorageIndexPost, HyperStorageIndexPut, PutView, ViewNew
from headwater.documents.requests import BatchLine, ContentWithBody, HyperStorageContentPatch, WriteBatch
from headwater.documents.write import PatchKind
from headwater.wire import json

S = TypeVar("S", bound=msgspec.Struct)
JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
INDEX_NEW: Final = "application/vnd.hyper-storage-index-new+json"
PATCHES: Final[Mapping[str, PatchKind]] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "operations",
    "application/vnd.hyper-storage-increment+json": "increment",
}
"""The types of patches; every other JSON is a merge patch."""
_CURSOR = re.compile(r'[?&]cursor=([^&>]*)[^>]*>; rel="next"')
_TYPES: Final[Mapping[PatchKind, str]] = {kind: media for media, kind in PATCHES.items()}
_ANY: Final = {"description": "Any JSON; an item is an object."}
CONTENT_BODY: Final[Mapping[str, Any]] = {JSON: _ANY}
PATCH_BODY: Final[Mapping[str, Any]] = {
    JSON: {"description": "A merge patch (RFC 7386)."},
    "application/merge-patch+json": {"description": "A merge patch (RFC 7386)."},
    "application/json-patch+json": {"description": "A list of operations (RFC 6902).", "type": "array", "items": {"type": "object"}},
    "application/vnd.hyper-storage-increment+json": {"description": "Numbers to add to those of the document.", "type": "object"},
}
INDEX_BODY: Final[Mapping[str, Any]] = {JSON: {"$struct": HyperStorageIndexNew}, INDEX_NEW: {"$struct": HyperStorageIndexNew}}
VIEW_BODY: Final[Mapping[str, Any]] = {JSON: {"$struct": ViewNew}}
BATCH_BODY: Final[Mapping[str, Any]] = {LINES: {"$struct": BatchLine}}


def patch_kind(content_type: str | None) -> PatchKind:
    """How a patch of this type is meant."""
    return PATCHES.get((content_type or "").partition(";")[0].strip().lower(), "merge")


def send_content(request: ContentWithBody) -> tuple[str, bytes]:
    return JSON, request.body


def send_patch(request: HyperStorageContentPatch) -> tuple[str, bytes]:
    return _TYPES[request.patch], request.body


def send_index(request: HyperStorageIndexPost | HyperStorageIndexPut) -> tuple[str, bytes]:
    return INDEX_NEW, json.encode(request.new)


def send_view(request: PutView) -> tuple[str, bytes]:
    return JSON, json.encode(request.new)


def send_batch(request: WriteBatch) -> tuple[str, bytes]:
    return LINES, b"".join(json.encode(line) + b"\n" for line in request.lines)


def read_content(body: bytes, headers: Mapping[str, str]) -> StoredContent:
    """What a GET of content answered. Errors: `BadInput` where the revision is missing, so that something else has answered."""
    revision = headers.get("hyperbus-revision", "")
    if not revision.isdigit():
        raise BadInput("The answer has no Hyperbus-Revision.", hint="Look at what stands between.")
    following = _CURSOR.search(headers.get("link", ""))
    return StoredContent(
        body=msgspec.Raw(body),
        revision=int(revision),
        etag=headers.get("etag", etag(int(revision))),
        next=None if following is None else unquote_plus(following[1]),
    )


def read_new(body: bytes, kind: type[S]) -> S:
    """The struct of a body; an empty one is `{}`. Errors: `BadInput`."""
    try:
        return json.decoder(kind)(body.strip() or b"{}")
    except json.UNREADABLE as error:
        raise json.unreadable(error, [field.encode_name for field in msgspec.structs.fields(kind)]) from None


def read_batch(body: bytes) -> tuple[BatchLine, ...]:
    """The writes of a batch. Errors: `BadInput` with the number of the line: nothing is written where one cannot be read."""
    lines = []
    for number, line in enumerate(body.splitlines(), 1):
        if line.strip():
            try:
                lines.append(read_new(line, BatchLine))
            except BadInput as error:
                raise BadInput(f"Line {number}: {error.message}", hint=error.hint) from None
    return tuple(lines)
