"""What is asked of journals: the requests of the operations, with what cannot be asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.bodies import AppendBody
from headwater.journal.event import check_range, check_seq_nr
from headwater.journal.idempotency import check_key
from headwater.journal.names import check_id
from headwater.journal.position import FollowPosition
from headwater.log.record import check_topic_name
from headwater.wire.operation import DryRun, Request, described, placed

Consistency = Literal["end", "mark", "store"]
"""What a read waits for: everything durable at the call; the same, through a mark; or nothing: the store as it is."""
View = Literal["ids", "status", "pointers"]
_CONSISTENCIES = get_args(Consistency)
_NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,239}$"
_ETAG = re.compile(r'(?:W/)?"?([0-9]{1,19})"?')
TopicName = Annotated[str, described("The name of the journals' topic, without its prefix `journal-` or with it.", pattern=_NAME)]
JournalId = Annotated[str, described("The id of the journal.")]
Consistent = Annotated[
    Consistency, described("end: everything durable now; mark: the same, through a mark in the log; store: what is copied alone.")
]


class ListJournals(Request, frozen=True, kw_only=True):
    """Nothing more."""


class JournalsRequest(Request, frozen=True, kw_only=True):
    """A topic of journals."""

    topic: TopicName

    def check(self) -> None:
        check_topic_name(self.topic)


class CreateJournals(JournalsRequest, frozen=True, kw_only=True):
    """How a new topic is made."""

    partitions: Annotated[int, described("How many partitions a new topic has; 0: as configured.", least=0, most=4096)] = 0
    cipher: Annotated[
        str, described("Encrypt the payloads of new events with it: aes-256-gcm. A topic that is there is encrypted from then on.")
    ] = ""
    dry_run: DryRun = False


class LookAtJournals(JournalsRequest, frozen=True, kw_only=True):
    """What of it."""

    view: Annotated[View, described("ids: its journals; status: its partitions; pointers: how far they are copied.")] = "ids"
    after: Annotated[str | None, described("Go on behind this id.")] = None
    limit: Annotated[int, described("The most ids to answer with.", least=1, most=10_000)] = 1000

    def check(self) -> None:
        super().check()
        if self.view not in get_args(View):
            raise BadInput(f"{self.view!r:.40} is no view of a topic.", hint=f"It is one of {', '.join(get_args(View))}.")


class FollowJournals(JournalsRequest, frozen=True, kw_only=True):
    """Which events."""

    after: Annotated[
        str | None,
        described("The position behind which to go on; `kept`: at the first record that the log keeps; left out: the first event."),
    ] = None
    last_event: Annotated[
        str | None, placed("header", "As `after`, which it outranks: browsers that connect again send both.", name="Last-Event-ID")
    ] = None
    tags: Annotated[str | None, described('Only events with one of these tags: with commas between, or ["a", "b"].')] = None
    ids: Annotated[str | None, described('Only events of these journals: with commas between, or ["a", "b"].')] = None
    copied: Annotated[bool, described("Read what the log has deleted from the store's copy. Without it that is an error.")] = False

    def check(self) -> None:
        super().check()
        self.position()
        self.wanted_tags()
        self.wanted_ids()

    def position(self) -> FollowPosition:
        """Where to begin. Errors: `BadInput`."""
        return FollowPosition.read(self.last_event or self.after or "")

    def wanted_tags(self) -> frozenset[str]:
        return texts_of(self.tags, "tags")

    def wanted_ids(self) -> frozenset[str]:
        return texts_of(self.ids, "ids")


class AppendMany(JournalsRequest, frozen=True, kw_only=True):
    """The Appends of the body, a line each: `BulkLine`, or the `BadInput` of a line that cannot be read."""

    lines: Sequence[Any] = ()


class JournalRequest(JournalsRequest, frozen=True, kw_only=True):
    """A journal."""

    id: JournalId

    def check(self) -> None:
        super().check()
        check_id(self.id)


class HeadRequest(JournalRequest, frozen=True, kw_only=True):
    """A journal's head."""

    consistency: Consistent = "end"

    def check(self) -> None:
        super().check()
        _check_consistency(self.consistency)


class ReadEvents(HeadRequest, frozen=True, kw_only=True):
    """Which events."""

    start: Annotated[int, described("The first number.", name="from", least=1)] = 1
    stop: Annotated[int | None, described("The last number.", name="to", least=1)] = None
    limit: Annotated[int | None, described("The most events to answer with.", least=0)] = None

    def check(self) -> None:
        super().check()
        check_range(self.start, self.stop)
        if self.limit is not None and (not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 0):
            raise BadInput(f"limit={self.limit!r:.40} is no number of events.", hint="Give 0 or more, or nothing.")


class AppendEvents(JournalRequest, frozen=True, kw_only=True):
    """The events of the body."""

    if_match: Annotated[str | None, placed("header", "The last number that the journal must have; 0: it is new.", name="If-Match")] = None
    idempotency: Annotated[
        str | None, placed("header", "Names the Append: one that is sent twice is done once.", name="Idempotency-Key")
    ] = None
    body: AppendBody | None = None

    def check(self) -> None:
        super().check()
        if self.idempotency is not None:
            check_key(self.idempotency)
        self.expected()

    def expected(self) -> int | None:
        """The last number that is expected. Errors: `BadInput`."""
        body_expected = None if self.body is None else self.body.expected
        if self.if_match is None:
            return check_expected(body_expected)
        match = _ETAG.fullmatch(self.if_match.strip())
        if match is None:
            raise BadInput(f"If-Match: {self.if_match[:60]} is no last number.", hint='Send it such as If-Match: "3".')
        if body_expected not in (None, int(match[1])):
            raise BadInput(f"If-Match says {match[1]}, and the body expects {body_expected}.", hint="Give one of them.")
        return check_expected(int(match[1]))


class DeleteEvents(JournalRequest, frozen=True, kw_only=True):
    """Up to where."""

    to: Annotated[int, described("The last number to delete.", least=1)]

    def check(self) -> None:
        super().check()
        check_seq_nr(self.to, "number to delete to")


class MarkJournal(JournalRequest, frozen=True, kw_only=True):
    """A mark."""

    mark: Annotated[str | None, described("The mark's own id; left out: a random one.")] = None

    def check(self) -> None:
        super().check()
        if self.mark is not None and (not isinstance(self.mark, str) or not 0 < len(self.mark) <= 1000):
            raise BadInput(f"{self.mark!r:.60} is no id of a mark.", hint="Give text of 1 to 1000 characters.")


class TrailRequest(JournalRequest, frozen=True, kw_only=True):
    """How much of it."""

    limit: Annotated[int, described("The most records to show, the newest ones.", least=1, most=1000)] = 100


def check_expected(expected: object) -> int | None:
    """The last number that a caller expects. Errors: `BadInput`."""
    if expected is None:
        return None
    if not isinstance(expected, int) or isinstance(expected, bool) or not 0 <= expected < 1 << 63:
        raise BadInput(f"expected={expected!r:.40} is no last number.", hint="Give 0 for a new journal, else the number of its last event.")
    return expected


def _check_consistency(consistency: object) -> None:
    if consistency not in _CONSISTENCIES:
        raise BadInput(f"{consistency!r:.40} is no consistency of reads.", hint=f"It is one of {', '.join(_CONSISTENCIES)}.")


def texts_of(written: str | None, what: str) -> frozenset[str]:
    """The texts of a parameter. Errors: `BadInput`."""
    if written is None:
        return frozenset()
    if not written.lstrip().startswith("["):
        return frozenset(part for part in written.split(",") if part)
    try:
        return frozenset(msgspec.json.decode(written, type=list[str]))
    except (msgspec.MsgspecError, UnicodeError):
        raise BadInput(f"{what}={written[:60]!r} is no list of texts.", hint=f'Write it such as {what}=a,b or {what}=["a","b"].') from None


def listed(texts: Collection[str] | None, parameter: str) -> str | None:
    """The parameter of a follow for a collection of texts. Errors: `BadInput`."""
    if texts is None:
        return None
    if isinstance(texts, str) or not isinstance(texts, Collection) or any(not isinstance(text, str) for text in texts):
        raise BadInput(f"{parameter}={texts!r:.60} are no texts.", hint=f'Give them such as {parameter}={{"a"}}.')
    return msgspec.json.encode(sorted(texts)).decode()
