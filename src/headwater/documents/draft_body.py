"""A draft with its body read, before it is queued: what cannot be JSON never reaches the writer's thread."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from headwater.core.document_errors import CollectionPut
from headwater.core.errors import BadInput, BadMethod, HeadwaterError
from headwater.documents.body import read_body
from headwater.documents.write import BatchDraft, Draft

MOST_DRAFTS = 10_000
LONGEST_LIFE = 365_000 * 86_400_000  # ms: the date of its end has to fit into a row of any store, and into a calendar
LONGEST_KEY = 1024
_encode = msgspec.json.Encoder().encode


class ReadDraft(msgspec.Struct, frozen=True, gc=False):
    """A draft, the value of its body, and the digest of the request where it has an idempotency key."""

    draft: Draft
    value: Any = None
    digest: str = ""

    @property
    def size(self) -> int:
        """About how many bytes its record takes."""
        return 2 * len(self.draft.body) + len(self.draft.path.text) + 200


class ReadBatch(msgspec.Struct, frozen=True, gc=False):
    """The drafts of a batch, read."""

    uri: str
    drafts: tuple[ReadDraft, ...]
    key: str = ""
    digest: str = ""
    source: str = ""

    @property
    def size(self) -> int:
        """About how many bytes its record takes."""
        return sum(draft.size for draft in self.drafts)


def read_draft(draft: Draft, *, limit: int | None = None) -> ReadDraft:
    """The draft with its body read. `limit`: the most bytes of a body.

    Errors: `BadMethod` and `CollectionPut` for a verb that its path does not have; those of `read_body`; `BadInput` for an unfit key or
    time to live.
    """
    path, verb = draft.path, draft.verb
    if path.is_collection and verb == "put":
        raise CollectionPut(f"{path.text} is a collection: it is not replaced as a whole.", hint="PUT its items, or POST to it.")
    if path.is_collection and verb == "patch":
        raise BadMethod(f"{path.text} is a collection: it has no PATCH.", hint="PATCH its items.")
    if verb == "post" and not path.is_collection:
        raise BadMethod(f"{path.text} is no collection: it has no POST.", hint="POST to a path that ends with ~.")
    if draft.ttl is not None and not 1 <= draft.ttl <= LONGEST_LIFE:
        raise BadInput(f"A time to live of {draft.ttl} ms is not possible.", hint="Give 1 ms or more, and at most 1000 years, 365000d.")
    value = None if verb == "delete" else read_body(draft.body, limit=limit)
    return ReadDraft(draft, value, _digest([draft]) if _checked(draft.key) else "")


def read_batch(batch: BatchDraft, *, limit: int | None = None) -> ReadBatch:
    """The batch with its bodies read.

    Errors: those of `read_draft`, of the first draft that has one; `BadInput` for drafts of several documents, and for a batch that
    deletes its collection after other writes: what they wrote would be of the life that ends.
    """
    if not batch.drafts:
        raise BadInput("The batch has no writes.", hint="Send at least one.")
    if len(batch.drafts) > MOST_DRAFTS:
        raise BadInput(f"The batch has {len(batch.drafts)} writes.", hint=f"Send at most {MOST_DRAFTS}.")
    read: list[ReadDraft] = []
    for number, draft in enumerate(batch.drafts, 1):
        if draft.path.uri != batch.uri:
            raise BadInput(f"Write {number} of the batch is to {draft.path.uri}, not to {batch.uri}.", hint="Send a batch for each.")
        if number > 1 and draft.path.is_collection and draft.verb == "delete":
            raise BadInput(f"Write {number} of the batch deletes the collection.", hint="Let it come first.")
        if draft.key:
            raise BadInput(f"Write {number} of the batch has an idempotency key.", hint="Give one to the batch as a whole.")
        try:
            read.append(read_draft(draft, limit=limit))
        except HeadwaterError as error:
            raise type(error)(f"Write {number} of the batch: {error.message}", hint=error.hint) from error
    return ReadBatch(batch.uri, tuple(read), batch.key, _digest(batch.drafts) if _checked(batch.key) else "", batch.source)


def _checked(key: str) -> str:
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise BadInput(f"{key!r:.60} is no idempotency key.", hint=f"Give text of 1 to {LONGEST_KEY} characters.")
    return key


def _digest(drafts: Any) -> str:
    """Of everything that a request asks for."""
    return blake2b(_encode(drafts), digest_size=16).hexdigest()
