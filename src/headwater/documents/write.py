"""What is asked of the writer of documents, and what it answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from headwater.documents.path import ResourcePath

Verb = Literal["put", "patch", "post", "delete"]
PatchKind = Literal["merge", "operations", "increment"]
"""RFC 7386, RFC 6902, or numbers that are added to those of the document."""


class Precondition(msgspec.Struct, frozen=True):
    """If-Match and If-None-Match of a write: None where it is not given, empty for `*`, else the revisions of the named tags."""

    match: tuple[int, ...] | None = None
    none_match: tuple[int, ...] | None = None


ANY_STATE = Precondition()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A write that a client asks for. `body`: JSON as it was sent."""

    path: ResourcePath
    verb: Verb
    body: bytes = b""
    patch: PatchKind = "merge"
    condition: Precondition = ANY_STATE
    key: str = ""
    """The idempotency key."""
    ttl: int | None = None
    """Milliseconds after which the document or item is deleted by itself."""
    source: str = ""
    """Of a view, which clients do not write: the position of the change that it mirrors."""

    @property
    def ends_collection(self) -> bool:
        """Whether it deletes a whole collection."""
        return self.verb == "delete" and self.path.is_collection


class BatchDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Writes to one document or collection that count together or not at all."""

    uri: str
    drafts: tuple[Draft, ...]
    key: str = ""
    source: str = ""


class WrittenDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted write. It is durable. `applied`: the store has it, too, else readers take it from the log."""

    path: ResourcePath
    revision: int
    partition: int
    offset: int
    created: bool = False
    applied: bool = True
    replayed: bool = False
    begins: bool = False
    """Whether its collection begins with it."""

    @property
    def transaction(self) -> str:
        """The opaque id of the transaction."""
        return transaction_id(self.partition, self.offset, self.revision)


def transaction_id(partition: int, offset: int, revision: int) -> str:
    """An id without slashes that names a partition, an offset and a revision."""
    return f"{partition:x}-{offset:x}-{revision:x}"
