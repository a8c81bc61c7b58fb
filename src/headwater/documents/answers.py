"""What users are told of documents: the answers of the operations."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote, urlencode

import msgspec

from headwater.documents.change import IndexState, Method
from headwater.documents.etag import etag
from headwater.documents.write import WrittenDocument
from headwater.wire.operation import Reply, described

CONTENT = "/hyper-storage/content"
TRANSACTIONS = "/hyper-storage/transactions"
_PLAIN = "/~:@!$&'()*+,;="
TransactionState = Literal["accepted", "applied", "indexed", "published"]
"""accepted: it is durable in the log, where its event can be read. The rest comes in one step, which has three names: the store has it
(applied), so have its indexes (indexed), and nothing more is to be done for it (published). The answer to a write says accepted or applied,
a transaction accepted or published."""
ChangeName = Literal[
    "feed:put", "feed:patch", "feed:delete", "snapshot:put", "snapshot:delete", "snapshot:end", "enter", "change", "leave", "reset"
]
"""feed: a change. snapshot: the state before the feed goes on; its end. enter, change, leave: of a live query."""


class HalLink(msgspec.Struct, frozen=True):
    """Where it is."""

    href: str


class WriteLinks(msgspec.Struct, frozen=True, rename={"transaction": "self"}):
    """The transaction, and what was written."""

    transaction: HalLink
    location: HalLink


class HyperStorageTransactionCreated(msgspec.Struct, frozen=True, kw_only=True, rename={"transaction": "transactionId", "links": "_links"}):
    """An accepted write. It is durable, and its revision counts."""

    transaction: Annotated[str, described("The id of the transaction; what it holds is nobody's business.")]
    path: Annotated[str, described("What was written; of a POST with the new id.")]
    revision: Annotated[int, described("The revision of the document or collection after it.")]
    created: Annotated[bool, described("Whether it was not there before.")] = False
    state: Annotated[Literal["accepted", "applied"], described("accepted: the store has it later, reads have it now.")] = "applied"
    links: WriteLinks | None = None

    @property
    def etag(self) -> str:
        """The tag that If-Match takes, of what was written."""
        return etag(self.revision)


class StoredContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a read found: a document or item, or a page of a collection as HAL. Over HTTP only the body travels as such; the rest is in the
    headers ETag, Hyperbus-Revision and Link."""

    body: msgspec.Raw
    revision: int
    etag: str
    next: str | None = None
    """The cursor of the next page."""


class ListedContent(msgspec.Struct, frozen=True, kw_only=True):
    """A document or a collection."""

    path: str
    revision: int
    created: str | int | None
    modified: str | int | None


class ContentListing(msgspec.Struct, frozen=True):
    """Documents and collections, by path."""

    items: list[ListedContent]
    next: str | None = None


class ExportedContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document or an item as it is. `expires`: when it is deleted by itself; none: never."""

    path: str
    body: msgspec.Raw
    expires: str | int | None = None


class ContentExport(msgspec.Struct, frozen=True):
    """Documents and items, by document and collection, then by item."""

    items: list[ExportedContent]
    next: str | None = None


class ShownDocumentChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change, as feeds and the history tell it. `body`: of the event, as it was applied; none for a delete."""

    method: Annotated[ChangeName, described("What happened; reset: what follows does not continue what came before.")]
    path: str
    revision: int
    time: str | int | None = None
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    position: Annotated[str, described("What to give as `after` to go on behind it.")] = ""


class ContentHistory(msgspec.Struct, frozen=True):
    """Changes of a document, a collection or an item, by revision."""

    items: list[ShownDocumentChange]
    next: str | None = None


class HyperStorageIndexCreated(msgspec.Struct, frozen=True, kw_only=True, rename={"index": "indexId", "links": "_links"}):
    """The index is being built."""

    index: str
    path: str
    links: dict[str, HalLink] = {}


class ShownSortItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A field of an index's order."""

    field_name: str
    order: Literal["asc", "desc"]
    field_type: Literal["text", "decimal"]


class HyperStorageIndex(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An index of a collection. While it is built: it has the items up to the id `built`, in `rows` rows. `unlike`: rows of items with a
    value of another type than `fieldType`, which stand in their place."""

    index_id: str
    path: str
    sort_by: list[ShownSortItem]
    filter_by: str = ""
    materialize: bool = False
    status: IndexState = "building"
    rows: int = 0
    built: str = ""
    unlike: int = 0
    error: str = ""


class HyperStorageTransaction(msgspec.Struct, frozen=True, kw_only=True, rename={"transaction": "transactionId"}):
    """How far a write is. `state`: accepted, where the log alone has it, or published, where the store and its indexes have it, too."""

    transaction: str
    path: str
    revision: int
    state: TransactionState
    method: Method = "put"
    partition: int = 0
    offset: int = 0
    time: str | int | None = None


class TransactionListing(msgspec.Struct, frozen=True):
    """Transactions, the newest first."""

    items: list[HyperStorageTransaction]
    next: str | None = None


class ShownView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A view: a collection that mirrors what its template and its filter name."""

    path: str
    template_uri: str
    filter: str = ""
    revision: int = 0


def content_address(path: str) -> str:
    """The address of a document, a collection or an item."""
    return f"{CONTENT}/{quote(path, safe=_PLAIN)}"


def next_link(path: str, query: dict[str, str], cursor: str) -> str:
    """The header Link that leads to the next page."""
    return f'<{content_address(path)}?{urlencode({**query, "cursor": cursor})}>; rel="next"'


def show_written(written: WrittenDocument, *, tagged: bool = True) -> Reply[HyperStorageTransactionCreated]:
    """The answer to a write, with its status and headers. `tagged`: what it wrote has an ETag, because it is there."""
    path = written.path.text
    address = content_address(path)
    shown = HyperStorageTransactionCreated(
        transaction=written.transaction,
        path=path,
        revision=written.revision,
        created=written.created,
        state="applied" if written.applied else "accepted",
        links=WriteLinks(HalLink(f"{TRANSACTIONS}/{written.transaction}"), HalLink(address)),
    )
    headers = {"Hyperbus-Revision": str(written.revision)}
    if written.created:
        headers["Location"] = address
    if written.replayed:
        headers["Idempotency-Replayed"] = "true"
    elif tagged:
        headers["ETag"] = etag(written.revision)
    return Reply(shown, 201 if written.created else 200, headers)
