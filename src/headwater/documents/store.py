"""The store of documents: a fold of the log's records, one for each partition of the log.

Two implementations keep one promise: `sqlite` (a file for each partition) and `cassandra`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import msgspec

from headwater.core.errors import Conflict
from headwater.documents.change import ChangeRecord, IndexDefinition

if TYPE_CHECKING:
    from headwater.documents.base_files import BaseFiles


class DocumentHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a document or a collection besides its rows. Times in ms.

    A head that has only settings or indexes, and no change yet, has revision 0 and counts as deleted.
    """

    uri: str
    revision: int
    generation: int = 1
    deleted: bool = False
    created: int = 0
    modified: int = 0
    last_id: str = ""
    settings: bytes = b""


class DocumentRow(msgspec.Struct, frozen=True, gc=False):
    """A document's body (`item` is empty), or an item of a collection. `revision`: of its last change."""

    item: str
    body: bytes
    revision: int
    created: int
    modified: int
    expires: int = 0


class IndexRow(NamedTuple):
    """A row of an index: its key, which ends with the item's id, and the id. `body`: of the item, where the index is materialized and the
    copies were asked for; else empty."""

    key: bytes
    item: str
    body: bytes = b""


class ChangePlace(NamedTuple):
    """Where the change of a revision lies in the log, and when it was made."""

    revision: int
    offset: int
    time: int


class AppendedRecord(NamedTuple):
    """A record of the log."""

    offset: int
    time: int
    record: ChangeRecord


class StoredPoint(NamedTuple):
    """A document or item as a store has it. `applied`: as of this offset. `revision`: of the document or collection. `row`: None where it
    is deleted or has never been."""

    applied: int
    revision: int
    row: DocumentRow | None


class DocumentView(ABC):
    """A partition at one moment. Blocking; used by one thread. Every answer is of the same applied offset (SQLite)."""

    @abstractmethod
    def applied(self) -> int:
        """Every record below this offset counts; no other does."""

    def counted(self, uri: str) -> int:
        """The offset of the last record that counts for a document. Where rows are written before the applied offset (Cassandra), it may
        lie behind that."""
        return self.applied() - 1

    @abstractmethod
    def head(self, uri: str) -> DocumentHead | None:
        """None: there has never been such a document or collection."""

    @abstractmethod
    def row(self, uri: str, item: str = "") -> DocumentRow | None:
        """A document's body, or an item; None where it is deleted or has never been. Items of an earlier generation are gone."""

    @abstractmethod
    def rows(self, uri: str, *, low: str = "", high: str | None = None, limit: int, reverse: bool = False) -> list[DocumentRow]:
        """Items of a collection with low <= id < high, by the bytes of their ids."""

    @abstractmethod
    def rows_of(self, uri: str, items: Sequence[str]) -> list[DocumentRow | None]:
        """Items by their ids, in the order asked for."""

    @abstractmethod
    def count(self, uri: str, check: Callable[[], None] = lambda: None) -> int:
        """How many items a collection has. Its bodies are not read. `check`: called now and then where that takes long; it may raise."""

    def cuts(self, uri: str, *, after: str = "", every: int, limit: int) -> list[str]:
        """The ids of every so manieth item behind an id, at most so many of them: where a collection is cut into shards. The last shard,
        which is shorter, has no id here."""
        cuts: list[str] = []
        while len(cuts) < limit:
            rows = self.rows(uri, low=f"{after}\0" if after else "", limit=every)
            if len(rows) < every:
                break
            after = rows[-1].item
            cuts.append(after)
        return cuts

    def fold(self) -> str:
        """What the rows belong to, where a store that is folded anew gets rows of another name (Cassandra); empty elsewhere."""
        return ""

    @abstractmethod
    def indexes(self, uri: str) -> list[IndexDefinition]:
        """The indexes of a collection in every state, by number."""

    @abstractmethod
    def index_rows(
        self, uri: str, index: int, *, low: bytes = b"", high: bytes | None = None, limit: int, reverse: bool = False, copies: bool = False
    ) -> list[IndexRow]:
        """Rows of an index with low <= key < high. `copies`: with the bodies of the items, which a materialized index holds; a row that a
        store made before it kept copies has none."""

    @abstractmethod
    def changes(self, uri: str, *, after: int = 0, limit: int, reverse: bool = False) -> list[ChangePlace]:
        """Where the changes after a revision lie; in reverse, those before it, or the newest where it is 0."""

    @abstractmethod
    def heads(self, *, prefix: str = "", after: str = "", limit: int) -> list[DocumentHead]:
        """Documents and collections whose uri begins with `prefix` and comes after `after`, by uri; deleted ones, too."""

    @abstractmethod
    def expiring(self, before: int, limit: int) -> list[tuple[str, str]]:
        """Uri and item of rows that expire before a time in ms, the earliest first."""


class DocumentStore(ABC):
    """The store of one partition. Blocking, and safe to call from several threads.

    Guarantees: `apply` is whole or not at all, and moves the applied offset with the rows (SQLite: one transaction; Cassandra: rows first,
    then the offset, every row with the timestamp of its offset). Applying a record twice changes nothing. The store holds nothing that the
    log does not. An index that is ready has a row for every item that it takes, also in a store that was folded anew.
    """

    partition: int
    generation: str
    shared: ClassVar[bool] = False
    """Whether other processes may call `add_index_rows` while the owner applies. Elsewhere it is for the owner alone."""
    lacks_copies: ClassVar[bool] = False
    """Whether rows of materialized indexes may have no copy, as those from before copies were kept: their items are read in their place."""

    @abstractmethod
    def view(self) -> AbstractContextManager[DocumentView]:
        """A moment of the partition. Errors: `Unavailable`, `Damaged`, `Closed`."""

    def point(self, uri: str, item: str = "") -> StoredPoint:
        """A document or item alone, at one moment. Errors: as `view`."""
        with self.view() as view:
            head = view.head(uri)
            return StoredPoint(view.applied(), 0 if head is None else head.revision, None if head is None else view.row(uri, item))

    @abstractmethod
    def apply(self, records: Sequence[AppendedRecord], applied: int, *, since: int | None = None, patience: float | None = None) -> None:
        """Fold records, in the order of their offsets; `applied` is the applied offset after them. Records below the applied offset are
        passed over. `since`: the offset from which on these are all records; a store that lacks some before it raises `Conflict`.
        Keeps the rows of every index of the collection right, in whatever state the index is. `patience`: how many seconds to wait for
        others that write, in a store where writers wait for each other and other than it was opened for.

        A record that says an index is ready, before `add_index_rows` has said that it is complete, has the missing rows added here: the
        store is being folded anew. Errors: `Differs` where a revision does not follow; `Conflict`. Then nothing is applied."""

    @abstractmethod
    def add_index_rows(
        self,
        uri: str,
        index: int,
        rows: Sequence[IndexRow],
        *,
        after: str = "",
        last: str = "",
        complete: bool = False,
        fold: str = "",
    ) -> None:
        """Add rows of items that were there before the index. A row that is there already stays; that of an item which has changed since
        the index came is passed over, for the change has added its own. `complete`: no row is missing any more. A materialized index
        gets copies of the items as the store has them; those of `rows` are not needed.

        `after`, `last`: these are the rows of all items behind one id up to another. `fold`: that of the view in which the items were read.
        Errors: `Conflict` where the store does not have the rows of the items before, or has another fold, for it was folded anew since:
        begin anew."""

    @abstractmethod
    def remove_index_rows(self, uri: str, index: int, limit: int) -> int:
        """Remove rows of an index that is being dropped; how many were removed."""

    @abstractmethod
    def purge(self, limit: int) -> int:
        """Remove rows of earlier generations of collections; how many were removed."""

    @abstractmethod
    def checkpoint(self) -> int:
        """Make the applied offset durable; return it. The log may be deleted below it."""

    @abstractmethod
    def clear(self) -> None:
        """Remove everything, so that the log is folded anew."""

    @abstractmethod
    def restore(self, base: DocumentView) -> None:
        """Hold what another store of this partition holds, and its applied offset; nothing that was here before stays."""

    @abstractmethod
    def digest(self) -> str:
        """A digest of everything that records have made of the store, the same for any split of them into calls."""

    @abstractmethod
    def close(self) -> None:
        """Close connections. Closing twice is no error."""


class DocumentStores(ABC):
    """The stores of all partitions. Blocking, and safe to call from several threads."""

    @abstractmethod
    def partition(self, number: int, generation: str) -> DocumentStore:
        """The store of a partition, made where there is none. `generation`: of the topic. The store of another generation raises `Differs`
        from all but `clear`, which makes it an empty one of this generation."""

    def check_unused(self, topic: str) -> None:  # noqa: B027
        """Before a topic that is not there is taken for one that was never written. Errors: `Differs` where the stores have rows, as far as
        that is known: then its log is missing."""

    def base_files(self) -> BaseFiles | None:
        """Where base copies are kept so that every owner of a partition finds them; None: on the disk of this machine, as the stores."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close the stores. Closing twice is no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def check_since(partition: int, applied: int, since: int | None) -> None:
    """Errors: `Conflict` where a store that has applied everything below one offset is given records from a later one on."""
    if since is not None and applied < since:
        raise Conflict(
            f"The store of partition {partition} has applied offsets up to {applied}, and was given records from {since} on.",
            hint="It was cleared or exchanged meanwhile: read the log from where it ends.",
        )


def check_fold(uri: str, index: int, stored: str, fold: str) -> None:
    """Errors: `Conflict` where rows are given that were made of another fold."""
    if fold and stored != fold:
        raise Conflict(
            f"The store was given rows of index {index} of {uri} for its fold {fold}, and has {stored or 'none'} now.",
            hint="It was folded anew meanwhile: build the index from its beginning.",
        )


def check_behind(uri: str, index: int, upto: str, after: str) -> None:
    """Errors: `Conflict` where rows are given of items behind one id, and the store has those of items up to an earlier one."""
    if after.encode() > upto.encode():
        raise Conflict(
            f"The store has rows of index {index} of {uri} for items up to {upto!r}, and was given those behind {after!r}.",
            hint="It was folded anew meanwhile: build the index from its beginning.",
        )
