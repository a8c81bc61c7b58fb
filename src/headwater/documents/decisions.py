"""What a write does to a document or collection, decided by the state before it: a record that holds the results, or an error.

Pure: the state is looked at, the time and the ids are given. A refused write takes no revision and leaves no record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from headwater.core.document_errors import DocumentNotFound, NotMatched, ViewModification
from headwater.core.errors import HeadwaterError, TooLarge
from headwater.core.ids import Ids
from headwater.documents.body import ID, body_bytes, check_depth, item_value, state_value, without_nulls
from headwater.documents.change import EMPTY, ChangeRecord, Idempotency, IndexDefinition, ResourceChange
from headwater.documents.draft_body import ReadBatch, ReadDraft
from headwater.documents.ids import next_id, successor
from headwater.documents.index.keys import index_keys
from headwater.documents.json_patch import apply_operations
from headwater.documents.patch import NoMergePatch, increment, merge_between, merge_patch
from headwater.documents.path import ResourcePath
from headwater.documents.schema.settings import check_item
from headwater.documents.store import AppendedRecord, DocumentHead, DocumentRow
from headwater.documents.write import Precondition


class DocumentState(Protocol):
    """The state before a write."""

    def head(self, uri: str) -> DocumentHead | None:
        """As `DocumentView.head`."""

    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        """As `DocumentView.row`."""

    def indexes(self, uri: str) -> list[IndexDefinition]:
        """As `DocumentView.indexes`."""


class ScratchState(DocumentState, Protocol):
    """A state that takes records: what a write of a batch did counts for the next one."""

    def applied(self) -> int:
        """The offset that the next record may have."""

    def add(self, appended: AppendedRecord) -> None:
        """Let a record count."""


class Moment(NamedTuple):
    """The time of a decision in ms, and the ids that it may draw."""

    now: int
    ids: Ids


class DecidedWrite(NamedTuple):
    """The path that was written (with the id that was given to it), and its change."""

    path: ResourcePath
    change: ResourceChange
    generation: int
    last_id: str = ""
    ended_indexes: tuple[int, ...] = ()
    begins: bool = False
    """Whether a collection begins with it: there was none, or it was deleted."""


class Decided(NamedTuple):
    """The record of a call, and what each of its writes did."""

    record: ChangeRecord
    writes: tuple[DecidedWrite, ...]
    batch: bool = False


def decide(state: DocumentState, read: ReadDraft, moment: Moment) -> Decided:
    """The record of one write. Errors: `DocumentNotFound`, `NotMatched`, `UnfitBody`, `BadInput`; `ViewModification`."""
    draft = read.draft
    write = _decided(state, read, draft.source, moment)
    idempotency = Idempotency(draft.key, read.digest, 201 if write.change.created else 200) if draft.key else None
    return Decided(_record(draft.path.uri, [write], idempotency, draft.source), (write,))


def decide_batch(scratch: ScratchState, batch: ReadBatch, moment: Moment, *, most: int) -> Decided:
    """The record of several writes to one document or collection, each with a revision of its own, or none of them.

    `scratch`: the state, which counts each write for the next one, and is of no use afterwards. `most`: the bytes that a record may have.
    Errors: that of the first refused write, which its message names; `TooLarge` as soon as the states that the record holds are, so that
    small patches of a large document, each with a state of its own, do not fill the memory first.
    """
    writes: list[DecidedWrite] = []
    size = 0
    for number, read in enumerate(batch.drafts, 1):
        try:
            write = _decided(scratch, read, batch.source, moment)
        except HeadwaterError as error:
            raise type(error)(f"Write {number} of the batch: {error.message}", hint=error.hint or "Nothing of the batch counts.") from error
        size += len(write.change.event) + len(write.change.body)
        if size > most:
            raise TooLarge(
                f"The record of {batch.uri} would have more than {most} bytes from write {number} of {len(batch.drafts)} on.",
                hint="It holds what each write leaves: write fewer together. Nothing of the batch counts.",
            )
        writes.append(write)
        scratch.add(AppendedRecord(scratch.applied(), moment.now, _record(batch.uri, [write], None, "")))
    idempotency = Idempotency(batch.key, batch.digest, 200) if batch.key else None
    return Decided(_record(batch.uri, writes, idempotency, batch.source), tuple(writes), batch=True)


def decide_expiry(state: DocumentState, path: ResourcePath, now: int) -> Decided | None:
    """The record that deletes what has expired; None where it is gone, or was written anew and lives on."""
    row = state.row(path.uri, path.item)
    if row is None or not 0 < row.expires <= now:
        return None
    write = _deleted(state, path, state.head(path.uri), row)
    return Decided(_record(path.uri, [write], None, ""), (write,))


def _record(uri: str, writes: Sequence[DecidedWrite], idempotency: Idempotency | None, source: str) -> ChangeRecord:
    return ChangeRecord(
        uri=uri,
        generation=writes[-1].generation,
        changes=tuple([write.change for write in writes]),
        last_id=max([write.last_id for write in writes]),
        idempotency=idempotency,
        source=source,
        ended_indexes=tuple([number for write in writes for number in write.ended_indexes]),
    )


def _decided(state: DocumentState, read: ReadDraft, source: str, moment: Moment) -> DecidedWrite:
    draft = read.draft
    path, head = draft.path, state.head(draft.path.uri)
    if head is not None and head.settings and not source and is_view(head.settings):
        raise ViewModification(f"{path.uri} is a view: it shows other documents.", hint="Write those.")
    if draft.verb == "post":
        check_condition(draft.condition, _revision(head), path)
        return _posted(state, read, head, moment)
    # The head says of a document what its row would, but for its body: a write of the whole needs no more.
    by_head = path.is_collection or (not path.item and draft.verb != "patch")
    row = None if by_head else state.row(path.uri, path.item)
    tag = _revision(head) if by_head else None if row is None else row.revision
    if tag is None and draft.verb in ("patch", "delete"):
        raise not_found(path)
    check_condition(draft.condition, tag, path)
    if draft.verb == "delete":
        # A view whose source is deleted stays a view, and keeps its indexes.
        ended = () if source or not path.is_collection else _living_indexes(state, path.uri)
        return _deleted(state, path, head, row)._replace(ended_indexes=ended)
    if draft.verb == "put":
        expires = 0 if draft.ttl is None else moment.now + draft.ttl
        return _put(state, path, read.value, head=head, row=row, created=tag is None, expires=expires)
    assert row is not None
    return _patched(state, read, head, row, moment)


def _posted(state: DocumentState, read: ReadDraft, head: DocumentHead | None, moment: Moment) -> DecidedWrite:
    draft, last = read.draft, "" if head is None else head.last_id
    id = next_id(last, moment.now, moment.ids)
    while state.row(draft.path.uri, id) is not None:  # a client has given this id to an item of its own
        id = successor(id)
    path = ResourcePath(draft.path.uri, id)
    expires = 0 if draft.ttl is None else moment.now + draft.ttl
    return _put(state, path, read.value, head=head, row=None, created=True, expires=expires)._replace(last_id=id)


def _put(
    state: DocumentState,
    path: ResourcePath,
    value: Any,
    *,
    head: DocumentHead | None,
    row: DocumentRow | None,
    created: bool,
    expires: int,
) -> DecidedWrite:
    """`row`: of an item that is there; a document's is not asked for."""
    value = without_nulls(value)
    if path.item:
        value = item_value(path.item, value)
        if head is not None and head.settings:
            check_item(head.settings, path.text, value)
    body = body_bytes(value)
    change = ResourceChange(
        method="put",
        revision=_next(head),
        item=path.item,
        event=msgspec.Raw(body),
        created=created,
        expires=expires,
        obsolete=_obsolete(state, path, row, value),
    )
    return DecidedWrite(path, change, _generation(head), begins=bool(path.item) and (head is None or head.deleted))


def _patched(state: DocumentState, read: ReadDraft, head: DocumentHead | None, row: DocumentRow, moment: Moment) -> DecidedWrite:
    draft, path, patch = read.draft, read.draft.path, read.value
    before = state_value(row.body)
    if path.item and draft.patch != "operations":
        patch = item_value(path.item, patch)  # an object
        patch = {name: value for name, value in patch.items() if name != ID}
    if draft.patch == "merge":
        event, after = patch, merge_patch(before, patch)
    elif draft.patch == "increment":
        after = increment(before, patch)
    else:
        after = apply_operations(before, patch)
        check_depth(after)
    after = without_nulls(after)
    if path.item:
        after = item_value(path.item, after)
        if head is not None and head.settings:
            check_item(head.settings, path.text, after)
    method, state_after = "patch", body_bytes(after)
    if draft.patch != "merge":
        try:
            event = merge_between(before, after)
        except NoMergePatch:
            method, event = "put", after
    expires = row.expires if draft.ttl is None else moment.now + draft.ttl
    published = state_after if method == "put" else body_bytes(event)
    change = ResourceChange(
        method="put" if method == "put" else "patch",
        revision=_next(head),
        item=path.item,
        event=msgspec.Raw(published),
        body=EMPTY if method == "put" else msgspec.Raw(state_after),
        expires=expires,
        obsolete=_obsolete(state, path, row, after),
    )
    return DecidedWrite(path, change, _generation(head))


def _deleted(state: DocumentState, path: ResourcePath, head: DocumentHead | None, row: DocumentRow | None) -> DecidedWrite:
    change = ResourceChange(method="delete", revision=_next(head), item=path.item, obsolete=_obsolete(state, path, row, None))
    # A deleted collection begins another life at once, so that nothing which comes later can belong to the one that ended.
    return DecidedWrite(path, change, _generation(head) + path.is_collection)


def _living_indexes(state: DocumentState, uri: str) -> tuple[int, ...]:
    return tuple([index.number for index in state.indexes(uri) if index.state != "deleting"])


def check_condition(condition: Precondition, tag: int | None, path: ResourcePath) -> None:
    """`tag`: the revision of what is there; None: nothing is. Errors: `NotMatched`."""
    if condition.match is not None and (tag is None or (condition.match and tag not in condition.match)):
        says = "is not there" if tag is None else f"has revision {tag}"
        raise NotMatched(f"{path.text} {says}: If-Match does not hold.", hint="Read it again, decide again, and send its new ETag.")
    if condition.none_match is not None and tag is not None and (not condition.none_match or tag in condition.none_match):
        raise NotMatched(f"{path.text} has revision {tag}: If-None-Match does not hold.", hint="Nothing was changed.")


def not_found(path: ResourcePath) -> DocumentNotFound:
    """The error for what is absent or deleted."""
    kind = "collection" if path.is_collection else "item" if path.item else "document"
    command = f"post {path.text} '{{...}}'" if path.is_collection else f"put {path.text} '{{...}}'"
    return DocumentNotFound(f"There is no {kind} {path.text}.", hint=f"Create it with `headwater doc {command}`.")


def is_view(settings: bytes) -> bool:
    """Whether the settings of a collection make it a view."""
    return b'"view"' in settings and isinstance(value := state_value(settings), dict) and bool(value.get("view"))


def _revision(head: DocumentHead | None) -> int | None:
    return None if head is None or head.deleted else head.revision


def _next(head: DocumentHead | None) -> int:
    return 1 if head is None else head.revision + 1


def _generation(head: DocumentHead | None) -> int:
    return 1 if head is None else head.generation


def _obsolete(state: DocumentState, path: ResourcePath, row: DocumentRow | None, after: Any) -> dict[int, bytes]:
    """The rows of indexes that a change of an item removes. `after`: its new value; None: it is deleted."""
    if row is None or not path.item or not (definitions := state.indexes(path.uri)):
        return {}
    obsolete: dict[int, bytes] = {}
    before = state_value(row.body)
    for definition in definitions:
        keys = index_keys(definition)
        old = keys.key(path.item, before)
        if old is not None and (after is None or keys.key(path.item, after) != old):
            obsolete[definition.number] = old
    return obsolete
