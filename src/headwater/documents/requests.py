"""What is asked of documents: the requests of the operations, under the names of the seed, with what cannot be asked."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.documents.etag import condition_of
from headwater.documents.path import ResourcePath, parse_path
from headwater.documents.write import Draft, PatchKind, Precondition, Verb
from headwater.wire.operation import Request, described, placed

MOST_ITEMS = 10_000
_KEY = re.compile(r"[!-~]{1,255}")
_WAIT = re.compile(r"(?:^|[,;\s])wait(?:=([0-9]{1,5}))?(?:$|[,;\s])", re.IGNORECASE)
_SWITCH = "^(?:|0|1|true|false)$"
_LONGEST_WAIT = 60
Path = Annotated[str, described("The path of a document, a collection (it ends with ~) or an item.", segments="rest")]
IfMatch = Annotated[str | None, placed("header", "Only if it has one of these ETags; *: only if it is there.", name="If-Match")]
IfNoneMatch = Annotated[
    str | None, placed("header", "Only if it has none of these ETags; *: only if it is not there.", name="If-None-Match")
]
Prefer = Annotated[
    str | None, placed("header", "wait, or wait=SECONDS: answer once the store has it and its indexes, or the time is over.", name="Prefer")
]
Switch = Annotated[str | None, described("1 or nothing: yes; 0: no.", pattern=_SWITCH)]


class ContentRequest(Request, frozen=True, kw_only=True):
    """A document, a collection or an item."""

    path: Path

    def check(self) -> None:
        parse_path(self.path)

    @property
    def resource(self) -> ResourcePath:
        """Errors: `BadPath`."""
        return parse_path(self.path)


OF_QUERIES = {
    "size": "size",
    "filter": "filter",
    "sort": "sort",
    "skip_max": "skipMax",
    "cursor": "cursor",
    "count": "count",
    "explain": "explain",
}
"""The fields that choose among the items of a collection, and how they are written."""


class HyperStorageContentGet(ContentRequest, frozen=True, kw_only=True):
    """Which state of it, and of a collection which items."""

    size: Annotated[int | None, described("The most items of a page; left out: as configured.", least=1, most=MOST_ITEMS)] = None
    filter: Annotated[str | None, described('An expression that items fulfil, such as b > 10 and name = "x".')] = None
    sort: Annotated[str | None, described("The order: fields with commas between, a - before those that fall, such as a,-b.")] = None
    skip_max: Annotated[
        int | None, described("The most items that are read and not returned; left out: as configured.", name="skipMax", least=0)
    ] = None
    cursor: Annotated[str | None, described("Go on where the page before ended: from its link `next`.")] = None
    count: Switch = None
    explain: Switch = None
    revision: Annotated[int | None, described("As it was at this revision.", least=1)] = None
    at: Annotated[int | None, described("As it was at this time.", time=True)] = None
    since: Annotated[int | None, described("What has changed after this revision, and the ids of what was deleted.", least=0)] = None
    if_match: IfMatch = None
    if_none_match: Annotated[str | None, placed("header", "304 without a body if it has one of these ETags.", name="If-None-Match")] = None

    def check(self) -> None:
        super().check()
        if sum(given is not None for given in (self.revision, self.at, self.since)) > 1:
            raise BadInput("`revision`, `at` and `since` name different states.", hint="Give one of them.")
        past = next((name for name in ("revision", "at", "since") if getattr(self, name) is not None), None)
        queried = next((written for field, written in OF_QUERIES.items() if getattr(self, field) is not None), None)
        if past is not None and queried is not None:
            raise BadInput(
                f"`{queried}` is of queries of what is there now, and `{past}` asks for something else.", hint=f"Leave out `{queried}`."
            )
        condition_of(self.if_match, self.if_none_match)

    @property
    def counted(self) -> bool:
        return is_on(self.count)

    @property
    def explained(self) -> bool:
        return is_on(self.explain)


class ContentWrite(ContentRequest, frozen=True, kw_only=True):
    """A write."""

    if_match: IfMatch = None
    if_none_match: IfNoneMatch = None
    idempotency: Annotated[
        str | None, placed("header", "Names the write: one that is sent twice is done once.", name="Idempotency-Key")
    ] = None
    prefer: Prefer = None

    def check(self) -> None:
        super().check()
        check_key(self.idempotency)
        self.condition()

    def condition(self) -> Precondition:
        """Errors: `BadInput`."""
        return condition_of(self.if_match, self.if_none_match)

    def draft(self) -> Draft:
        """The write for the writer. Errors: `BadPath`, `BadInput`."""
        return self._draft("delete")

    def waits(self) -> float:
        return wait_seconds(self.prefer)

    def _draft(self, verb: Verb, **more: Any) -> Draft:
        return Draft(path=self.resource, verb=verb, condition=self.condition(), key=self.idempotency or "", **more)


class ContentWithBody(ContentWrite, frozen=True, kw_only=True):
    """A write with a body. `body`: JSON as it was sent."""

    ttl: Annotated[
        str | None, placed("header", "How long it lives from now on, such as 10m; then it is deleted.", name="Hyper-Storage-TTL")
    ] = None
    body: bytes = b""

    def check(self) -> None:
        super().check()
        ttl_of(self.ttl)


class HyperStorageContentPut(ContentWithBody, frozen=True, kw_only=True):
    """The body that a document or item has from now on."""

    def draft(self) -> Draft:
        return self._draft("put", body=self.body, ttl=ttl_of(self.ttl))


class HyperStorageContentPatch(ContentWithBody, frozen=True, kw_only=True):
    """What is changed of a document or item. `patch`: how the body is meant."""

    patch: PatchKind = "merge"

    def draft(self) -> Draft:
        return self._draft("patch", body=self.body, patch=self.patch, ttl=ttl_of(self.ttl))


class HyperStorageContentPost(ContentWithBody, frozen=True, kw_only=True):
    """The body of a new item of a collection."""

    def draft(self) -> Draft:
        return self._draft("post", body=self.body, ttl=ttl_of(self.ttl))


class HyperStorageContentDelete(ContentWrite, frozen=True, kw_only=True):
    """What is deleted."""


class ListContent(Request, frozen=True, kw_only=True):
    """Which documents and collections."""

    prefix: Annotated[str, described("Only those whose path begins so.")] = ""
    after: Annotated[str, described("Go on behind this path.")] = ""
    limit: Annotated[int, described("The most to answer with.", least=1, most=10_000)] = 1000


class ExportContent(Request, frozen=True, kw_only=True):
    """Which documents and items."""

    prefix: Annotated[str, described("Only those of documents and collections whose path begins so.")] = ""
    after: Annotated[str, described("Go on behind this path, which an answer has named.")] = ""
    limit: Annotated[int, described("The most to answer with; fewer come where bodies are large.", least=1, most=10_000)] = 1000

    def check(self) -> None:
        if self.after:
            parse_path(self.after)


class BatchLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One write of a batch. `patch`: how the body of a patch is meant; `ttl`: such as 10m; `if_match`, `if_none_match`: as the headers."""

    method: Verb
    path: str
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    patch: PatchKind = "merge"
    if_match: str | None = None
    if_none_match: str | None = None
    idempotency_key: str | None = None
    ttl: str | None = None

    @property
    def content(self) -> bytes:
        """The body as it was sent; empty where there is none."""
        return b"" if self.body is msgspec.UNSET else bytes(self.body)

    def draft(self) -> Draft:
        """The write for the writer. Errors: `BadPath`, `BadInput`."""
        check_key(self.idempotency_key)
        return Draft(
            path=parse_path(self.path),
            verb=self.method,
            body=self.content,
            patch=self.patch,
            condition=condition_of(self.if_match, self.if_none_match),
            key=self.idempotency_key or "",
            ttl=ttl_of(self.ttl),
        )


class WriteBatch(Request, frozen=True, kw_only=True):
    """The writes of the body, a line each."""

    atomic: Annotated[bool, placed("query", "true: the writes are to one document or collection, and count together or not at all.")] = (
        False
    )
    idempotency: Annotated[
        str | None, placed("header", "Names an atomic batch: one that is sent twice is done once.", name="Idempotency-Key")
    ] = None
    lines: tuple[BatchLine, ...] = ()

    def check(self) -> None:
        check_key(self.idempotency)
        if self.idempotency is not None and not self.atomic:
            raise BadInput(
                "An Idempotency-Key names one write, and this batch is many.",
                hint="Give each line its idempotencyKey, or ask with atomic=true.",
            )


def is_on(switch: str | None) -> bool:
    """Whether a switch of the query is given, and not as 0 or false."""
    return switch is not None and switch not in ("0", "false")


def check_key(key: str | None) -> None:
    """Errors: `BadInput` for what cannot be an idempotency key."""
    if key is not None and (not isinstance(key, str) or not _KEY.fullmatch(key)):
        raise BadInput(f"{key!r:.60} is no Idempotency-Key.", hint="Give 1 to 255 visible characters of ASCII, such as a UUID.")


def ttl_of(written: str | Duration | None) -> int | None:
    """Milliseconds of a life that is written such as 10m. Errors: `BadInput`."""
    if written is None:
        return None
    ttl = int(Duration.parse(written) if isinstance(written, str) else written)
    if ttl <= 0:
        raise BadInput(f"A life of {written} has no time.", hint="Write it such as Hyper-Storage-TTL: 10m.")
    return ttl


def wait_seconds(prefer: str | None) -> float:
    """How long a request wants to wait: of `wait` and `wait=SECONDS`, a minute at most."""
    match = _WAIT.search(prefer or "")
    return 0.0 if match is None else min(float(match[1] or _LONGEST_WAIT), _LONGEST_WAIT)
