"""What is asked of the changes of documents: feeds, history, transactions, trails."""

from __future__ import annotations

from typing import Annotated, get_args

from headwater.core.errors import BadInput
from headwater.documents.answers import TransactionState
from headwater.documents.etag import condition_of
from headwater.documents.path import parse_path
from headwater.documents.requests import ContentRequest, IfMatch, Prefer, Switch, is_on, wait_seconds
from headwater.wire.operation import DryRun, Request, described, placed


class FollowContent(ContentRequest, frozen=True, kw_only=True):
    """Which changes."""

    path: Annotated[
        str,
        described(
            "A document, a collection or an item; or a prefix that ends with /: everything below it, / alone is all.", segments="rest"
        ),
    ]
    after: Annotated[str | None, described("The id of the last change that was seen; left out: only what comes.")] = None
    last_event: Annotated[
        str | None, placed("header", "As `after`, which it outranks: browsers that connect again send both.", name="Last-Event-ID")
    ] = None
    snapshot: Switch = None
    filter: Annotated[str | None, described("Only items that fulfil it: what enters, changes and leaves.")] = None

    def check(self) -> None:
        if self.path != "/":
            parse_path(self.path.removesuffix("/"))

    @property
    def is_prefix(self) -> bool:
        """Whether it follows everything below a path."""
        return self.path.endswith("/")

    @property
    def position(self) -> str | None:
        return self.after if self.last_event is None else self.last_event

    @property
    def snapped(self) -> bool:
        return is_on(self.snapshot)


class PollContent(FollowContent, frozen=True, kw_only=True):
    """Which changes, and how long to wait for the first."""

    limit: Annotated[int, described("The most changes to answer with.", least=1, most=10_000)] = 1000
    prefer: Annotated[str | None, placed("header", "wait=SECONDS: wait so long for a change.", name="Prefer")] = None

    def waits(self) -> float:
        return wait_seconds(self.prefer)


class ReadHistory(ContentRequest, frozen=True, kw_only=True):
    """Which revisions."""

    after: Annotated[int | None, described("The revisions after this one; with `reverse` those before it.", least=0)] = None
    limit: Annotated[int, described("The most revisions to answer with.", least=1, most=10_000)] = 100
    reverse: Annotated[bool, described("true: the newest first.")] = False


class RestoreContent(ContentRequest, frozen=True, kw_only=True):
    """To which revision."""

    revision: Annotated[int, described("The revision whose state it has again.", least=1)]
    if_match: IfMatch = None
    dry_run: DryRun = False

    def check(self) -> None:
        super().check()
        condition_of(self.if_match, None)


class ListTransactions(Request, frozen=True, kw_only=True):
    """Which transactions."""

    path: Annotated[str | None, placed("query", "Only those of this document or collection.")] = None
    state: Annotated[
        TransactionState | None,
        described(
            "accepted: only those that the store lacks, the oldest first where no path is given; applied, indexed or published, which are "
            "the same: only those that it has, among the newest."
        ),
    ] = None
    limit: Annotated[int, described("The most to answer with, the newest first.", least=1, most=1000)] = 100

    def check(self) -> None:
        if self.path is not None:
            parse_path(self.path)
        if self.state is not None and self.state not in get_args(TransactionState):
            raise BadInput(
                f"{self.state!r:.40} is no state of a transaction.", hint=f"It is one of {', '.join(get_args(TransactionState))}."
            )

    @property
    def pending(self) -> bool:
        """Whether they are those that the store lacks. What it has is indexed and published, too: it comes there in one step."""
        return self.state == "accepted"

    @property
    def uri(self) -> str:
        """The document or collection that `path` names."""
        return parse_path(self.path or "").uri


class FindTransaction(Request, frozen=True, kw_only=True):
    """A transaction."""

    transaction: Annotated[str, described("Its id, from the answer to the write.")]
    prefer: Prefer = None

    def waits(self) -> float:
        return wait_seconds(self.prefer)


class ListDocumentPartitions(Request, frozen=True, kw_only=True):
    """Nothing more."""


class DocumentTrailRequest(ContentRequest, frozen=True, kw_only=True):
    """How much of it."""

    limit: Annotated[int, described("The most records to show, the newest ones.", least=1, most=1000)] = 100


class VerifyDocuments(Request, frozen=True, kw_only=True):
    """Nothing more."""


class RebuildDocuments(Request, frozen=True, kw_only=True):
    """Of which partitions, and why."""

    partitions: Annotated[tuple[int, ...], described("Only these; left out, all of them.")] = ()
    why: Annotated[str, described("The reason, for the audit.")] = ""
    dry_run: DryRun = False
