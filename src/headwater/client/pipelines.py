"""The door's pipelines: an operator reads, corrects, steps and replays them, over a directory or over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from headwater.client.backend import Backend
from headwater.core.errors import BadInput
from headwater.log.record import Bounds, whole
from headwater.pipeline import operations as ask
from headwater.pipeline.operating import answers
from headwater.pipeline.values import extended, tagged

_PAGE = 1000  # messages asked for at once


class Pipelines:
    """All pipelines of a log: `await hw.pipelines.list()`, `await hw.pipelines["shop"].status()`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def list(self) -> Sequence[answers.Status]:
        """The status of every pipeline that has run here, sorted by name."""
        return await self._backend.ask(ask.LIST, ask.ListPipelines())

    def __getitem__(self, name: str) -> OnePipeline:
        """A pipeline by its name. Does no I/O. Errors: `BadInput` for what is no name."""
        value: object = name
        if not isinstance(value, str) or not value:
            raise BadInput(f"{value!r} is no name of a pipeline.", hint='Write its name, such as hw.pipelines["shop"].')
        return OnePipeline(self._backend, name)

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`: Python would ask `__getitem__` for 0, 1, 2 and so on, and never end."""
        raise TypeError("`hw.pipelines` is no list. Go through what `hw.pipelines.list()` returns; with asyncio, await it first.")


class OnePipeline:
    """One pipeline. Reading changes nothing. The audit keeps every change with its reason `why`; `dry_run` changes nothing.

    Errors: `UnknownPipeline`, `UnknownSink`, `BadBounds` for an offset that the log does not hold, `BadInput` for a change without a
    reason, `Stopped` when a sink refuses a message that is sent to it. Over HTTP also those of the log: `Unreachable`, `OutcomeUnknown`.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self._backend, self.name = backend, name

    # -- looking --------------------------------------------------------------------------------------------

    async def status(self) -> answers.Status:
        """Its newest run, and where every sink is."""
        return await self._backend.ask(ask.STATUS, ask.PipelineRequest(pipeline=self.name))

    async def bounds(self) -> Bounds:
        """The first offset that its log keeps, and the one after the last."""
        page = await self._backend.ask(ask.MESSAGES, ask.ReadMessages(pipeline=self.name, limit=1))
        return Bounds(page.oldest, page.current + 1)

    async def messages(
        self, first: int | None = None, last: int | None = None, *, namespace: str = ".*", limit: int = 1000
    ) -> list[answers.Seen]:
        """The messages `first` (None: the oldest) to `last` (None: the newest), both included, at most `limit` of them."""
        messages: list[answers.Seen] = []
        limit = whole(limit, "limit")
        while True:
            wanted = min(limit - len(messages), _PAGE)
            page = await self._backend.ask(
                ask.MESSAGES, ask.ReadMessages(pipeline=self.name, first=first, last=last, namespace=namespace, limit=wanted)
            )
            messages += page.items
            if page.next is None or len(messages) >= limit:
                return messages
            first = int(page.next)

    async def offsets(self) -> list[answers.SinkPosition]:
        """Where every sink is, and what has stopped it."""
        return await self._backend.ask(ask.OFFSETS, ask.PipelineRequest(pipeline=self.name))

    async def offset(self, sink: str) -> answers.SinkDetail:
        """Where a sink is, and by namespace the last message that it took."""
        return await self._backend.ask(ask.OFFSET, ask.SinkRequest(pipeline=self.name, sink=sink))

    async def dead(self, sink: str | None = None) -> list[answers.Buried]:
        """The messages that were put aside."""
        return await self._backend.ask(ask.DEAD, ask.ListDead(pipeline=self.name, sink=sink))

    async def dead_one(self, offset: int, sink: str | None = None) -> answers.BuriedMessage:
        """One of them, with the message itself."""
        return await self._backend.ask(ask.DEAD_ONE, ask.MessageRequest(pipeline=self.name, offset=offset, sink=sink))

    async def audit(self) -> list[answers.Audited]:
        """What operators have done: when, who, what, and why."""
        return await self._backend.ask(ask.AUDIT, ask.PipelineRequest(pipeline=self.name))

    async def verify(self, sink: str) -> answers.Verified:
        """Compare what a sink holds with what the log says that it should hold."""
        return await self._backend.ask(ask.VERIFY, ask.SinkRequest(pipeline=self.name, sink=sink))

    # -- correcting -----------------------------------------------------------------------------------------

    async def mark(self, sink: str, position: int, *, why: str, dry_run: bool = False) -> answers.Marked:
        """Make `position` the last message that a sink has taken, forward or back; -1: none."""
        return await self._backend.ask(
            ask.MARK, ask.MarkPosition(pipeline=self.name, sink=sink, position=position, why=why, dry_run=dry_run)
        )

    async def delete(self, sink: str, *, why: str, dry_run: bool = False) -> answers.Forgotten:
        """Forget a sink that the pipeline no longer has."""
        return await self._backend.ask(ask.DELETE, ask.ForgetSink(pipeline=self.name, sink=sink, why=why, dry_run=dry_run))

    async def ack(self, sink: str, offset: int, *, why: str, dry_run: bool = False) -> answers.Acked:
        """Count a message as taken without sending it."""
        return await self._backend.ask(ask.ACK, ask.AckMessage(pipeline=self.name, sink=sink, offset=offset, why=why, dry_run=dry_run))

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
        for name, fields in (("data", data), ("set", set)):
            if fields is not None and not isinstance(fields, Mapping):
                raise BadInput(f"`{name}` is {fields!r:.60}, which has no fields.", hint=f'Write it such as {name}={{"price": 5}}.')
        if isinstance(unset, str):  # each of its letters would be taken for a field
            raise BadInput(f"`unset` is the text {unset!r:.60}, not a list of fields.", hint=f"Write it such as unset=[{unset!r:.60}].")
        request = ask.EditMessage(
            pipeline=self.name,
            offset=offset,
            data=tagged(extended(data)),
            set=None if set is None else tagged(extended(dict(set))),
            unset=list(unset),
            sink=sink,
            why=why,
            dry_run=dry_run,
        )
        return await self._backend.ask(ask.EDIT, request)

    async def undo(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Undone:
        """Deliver the original again."""
        return await self._backend.ask(ask.UNDO, ask.UndoEdit(pipeline=self.name, offset=offset, sink=sink, why=why, dry_run=dry_run))

    async def drop(self, offset: int, *, sink: str | None = None, why: str, dry_run: bool = False) -> answers.Resolved:
        """Let a message that was put aside go for good."""
        return await self._backend.ask(ask.DROP, ask.UndoEdit(pipeline=self.name, offset=offset, sink=sink, why=why, dry_run=dry_run))

    # -- sending --------------------------------------------------------------------------------------------

    async def step(self, sink: str, count: int = 1, *, why: str = "", dry_run: bool = False) -> answers.Stepped:
        """Deliver the next messages to a sink, each acknowledged before the one after."""
        return await self._backend.ask(ask.STEP, ask.StepSink(pipeline=self.name, sink=sink, count=count, why=why, dry_run=dry_run))

    async def replay(self, sink: str, first: int, last: int, *, why: str = "", dry_run: bool = False) -> answers.Replayed:
        """Send messages again, both ends included; positions do not move."""
        return await self._backend.ask(
            ask.REPLAY, ask.ReplayMessages(pipeline=self.name, sink=sink, first=first, last=last, why=why, dry_run=dry_run)
        )

    async def retry(
        self, offset: int, *, sink: str | None = None, why: str = "", force: bool = False, dry_run: bool = False
    ) -> answers.Resolved:
        """Send a message that was put aside. `Conflict` where the sink has a newer one of the same document, unless `force` is given."""
        return await self._backend.ask(
            ask.RETRY, ask.RetryDead(pipeline=self.name, offset=offset, sink=sink, why=why, force=force, dry_run=dry_run)
        )

    # -- the run and its log --------------------------------------------------------------------------------

    async def stop(self, *, why: str = "", dry_run: bool = False) -> answers.Stopping:
        """Ask a live run to finish what it has begun, and stop."""
        return await self._backend.ask(ask.STOP, ask.StopRun(pipeline=self.name, why=why, dry_run=dry_run))

    async def remove(self, *, dry_run: bool = False) -> answers.Removed:
        """Delete the pipeline, which must not run, with its messages, positions and audit, for good. Sinks keep what they have."""
        return await self._backend.ask(ask.REMOVE, ask.CompactLog(pipeline=self.name, dry_run=dry_run))

    async def compact(self, *, dry_run: bool = False) -> answers.Compaction:
        """Keep, below what every sink has taken, the last message of each namespace."""
        return await self._backend.ask(ask.COMPACT, ask.CompactLog(pipeline=self.name, dry_run=dry_run))
