"""Pipelines as the door offers them: looked at, corrected, stepped and replayed, the same over a directory and over HTTP."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from headwater.core.errors import BadBounds, BadInput, UnknownPipeline, UnknownSink
from headwater.log.record import Bounds
from headwater.pipeline.operating import answers

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PAGE = 1000  # messages asked for at once


class Asked(ABC):
    """Who answers: the log in this process, or a server."""

    @abstractmethod
    async def every(self) -> list[answers.Status]:
        """The status of all pipelines."""

    @abstractmethod
    async def ask(self, pipeline: str, verb: str, kind: type[T], arguments: Mapping[str, Any]) -> T:
        """The answer to a method of `headwater.pipeline.operating.desk.Desk`."""


class Pipelines:
    """All pipelines of a log: `await hw.pipelines.list()`, `await hw.pipelines["shop"].status()`."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    async def list(self) -> Sequence[answers.Status]:
        """The status of every pipeline that has run here, sorted by name."""
        return await self._asked.every()

    def __getitem__(self, name: str) -> OnePipeline:
        """A pipeline by its name. Nothing is asked yet."""
        return OnePipeline(self._asked, name)


class OnePipeline:
    """One pipeline. Looking changes nothing; every change is audited, with its reason `why`, and with `dry_run` only tried.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds` for an offset that the log does not hold, `BadInput` for a change without a
    reason, `Stopped` when a sink refuses a message that is sent to it. Over HTTP also those of the log: `Unreachable`, `OutcomeUnknown`.
    """

    def __init__(self, asked: Asked, name: str) -> None:
        self._asked, self.name = asked, name

    # -- looking --------------------------------------------------------------------------------------------

    async def status(self) -> answers.Status:
        """Its newest run, and where every sink is."""
        return await self._ask(answers.Status, "status")

    async def bounds(self) -> Bounds:
        """The first offset that its log keeps, and the one after the last."""
        page = await self._ask(answers.Messages, "messages", limit=1)
        return Bounds(page.oldest, page.current + 1)

    async def messages(
        self, first: int | None = None, last: int | None = None, *, namespace: str = ".*", limit: int = 1000
    ) -> list[answers.Seen]:
        """The messages `first` (None: the oldest) to `last` (None: the newest), both included, at most `limit` of them."""
        found: list[answers.Seen] = []
        while True:
            wanted = min(limit - len(found), _PAGE)
            page = await self._ask(answers.Messages, "messages", first=first, last=last, namespace=namespace, limit=wanted)
            found += page.items
            if page.next is None or len(found) >= limit:
                return found
            first = int(page.next)

    async def offsets(self) -> list[answers.Place]:
        """Where every sink is, and what has stopped it."""
        return await self._ask(list[answers.Place], "offsets")

    async def offset(self, sink: str) -> answers.Taken:
        """Where a sink is, and by namespace the last message that it took."""
        return await self._ask(answers.Taken, "offset", sink=sink)

    async def dead(self, sink: str | None = None) -> list[answers.Buried]:
        """The messages that were put aside."""
        return await self._ask(list[answers.Buried], "dead", sink=sink)

    async def dead_one(self, offset: int, sink: str | None = None) -> answers.BuriedMessage:
        """One of them, with the message itself."""
        return await self._ask(answers.BuriedMessage, "dead_one", offset=offset, sink=sink)

    async def audit(self) -> list[answers.Audited]:
        """What operators have done: when, who, what, and why."""
        return await self._ask(list[answers.Audited], "audit")

    async def verify(self, sink: str) -> answers.Verified:
        """Compare what a sink holds with what the log says that it should hold."""
        return await self._ask(answers.Verified, "verify", sink=sink)

    # -- correcting -----------------------------------------------------------------------------------------

    async def mark(self, sink: str, position: int, *, why: str, dry_run: bool = False) -> answers.Marked:
        """Make `position` the last message that a sink has taken, forward or back; -1: none."""
        return await self._ask(answers.Marked, "mark", sink=sink, position=position, why=why, dry_run=dry_run)

    async def delete(self, sink: str, *, why: str, dry_run: bool = False) -> answers.Forgotten:
        """Forget a sink that the pipeline no longer has."""
        return await self._ask(answers.Forgotten, "delete", sink=sink, why=why, dry_run=dry_run)

    async def ack(self, sink: str, offset: int, *, why: str, dry_run: bool = False) -> answers.Acked:
        """Count a message as taken without sending it."""
        return await self._ask(answers.Acked, "ack", sink=sink, offset=offset, why=why, dry_run=dry_run)

    async def edit(
        self,
        offset: int,
        data: dict[str, Any] | None = None,
        *,
        set: Mapping[str, Any] | None = None,
        unset: Sequence[str] = (),
        sink: str | None = None,
        why: str,
        dry_run: bool = False,
    ) -> answers.Edited:
        """Deliver a corrected copy: the whole document as `data`, or the message with fields `set` and others `unset`."""
        changes = {"data": data, "set": None if set is None else dict(set), "unset": list(unset)}
        return await self._ask(answers.Edited, "edit", offset=offset, sink=sink, why=why, dry_run=dry_run, **changes)

    async def undo(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Undone:
        """Deliver the original again."""
        return await self._ask(answers.Undone, "undo", offset=offset, sink=sink, why=why, dry_run=dry_run)

    async def drop(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Resolved:
        """Let a message that was put aside go for good."""
        return await self._ask(answers.Resolved, "drop", offset=offset, sink=sink, why=why, dry_run=dry_run)

    # -- sending --------------------------------------------------------------------------------------------

    async def step(self, sink: str, count: int = 1, *, why: str = "", dry_run: bool = False) -> answers.Stepped:
        """Deliver the next messages to a sink, each acknowledged before the one after."""
        return await self._ask(answers.Stepped, "step", sink=sink, count=count, why=why, dry_run=dry_run)

    async def replay(self, sink: str, first: int, last: int, *, why: str = "", dry_run: bool = False) -> answers.Replayed:
        """Send messages again, both ends included; positions do not move."""
        return await self._ask(answers.Replayed, "replay", sink=sink, first=first, last=last, why=why, dry_run=dry_run)

    async def retry(
        self, offset: int, *, sink: str | None = None, why: str = "", force: bool = False, dry_run: bool = False
    ) -> answers.Resolved:
        """Send a message that was put aside. `Conflict` where the sink has a newer one of the same document, unless `force` is given."""
        return await self._ask(answers.Resolved, "retry", offset=offset, sink=sink, why=why, force=force, dry_run=dry_run)

    # -- the run and its log --------------------------------------------------------------------------------

    async def stop(self, *, why: str = "", dry_run: bool = False) -> answers.Stopping:
        """Ask a live run to finish what it has begun, and stop."""
        return await self._ask(answers.Stopping, "stop", why=why, dry_run=dry_run)

    async def compact(self, *, dry_run: bool = False) -> answers.Compaction:
        """Keep, below what every sink has taken, the last message of each namespace."""
        return await self._ask(answers.Compaction, "compact", dry_run=dry_run)

    async def _ask(self, kind: type[T], verb: str, **arguments: Any) -> T:
        return await self._asked.ask(self.name, verb, kind, arguments)


def check(pipeline: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what cannot be, with the same error wherever the pipeline is.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds`, `BadInput`.
    """
    if not _NAME.fullmatch(pipeline):
        raise UnknownPipeline(f"No pipeline is named {pipeline!r}.", hint="List them with `headwater pipeline list`.")
    sink = arguments.get("sink")
    if sink is not None and not _NAME.fullmatch(sink):
        raise UnknownSink(f"No sink is named {sink!r}.", hint=f"See `headwater pipeline offset {pipeline} list`.")
    for name in ("offset", "first", "last"):
        number = arguments.get(name)
        if number is not None and number < 0:
            raise BadBounds(f"{number} is no offset.", hint="Offsets count from 0.")
    for name in ("limit", "count"):
        number = arguments.get(name)
        if number is not None and number < 1:
            raise BadInput(f"A {name} of {number} messages is none.", hint="Give 1 or more.")
