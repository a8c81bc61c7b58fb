"""The door's projections: look at one, make it anew, decide about its dead events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.client.backend import Backend
from headwater.journal import projection_operations as ask
from headwater.journal import projection_requests as asked
from headwater.journal.projection import check_projection_name


class NamedProjection:
    """A projection of a topic by its name, wherever it runs. Decisions are carried out by whoever runs it.

    Errors of every call: `NotFound` for one that nobody has run; `UnknownJournal`; `BadInput`; `Unavailable`. Over HTTP also `Unreachable`.
    """

    def __init__(self, backend: Backend, topic: str, name: str) -> None:
        self._backend, self.topic, self.name = backend, topic, check_projection_name(name)

    async def status(self) -> asked.ShownProjection:
        """Its partitions: how far they are, how far behind the log, and why one stands."""
        return await self._backend.ask(ask.PROJECTION, asked.ProjectionRequest(topic=self.topic, name=self.name))

    async def reset(self, *, why: str = "", dry_run: bool = False) -> asked.ProjectionResets:
        """Let it begin anew, from the first event on. Its `reset` function empties the read model; dead events are forgotten."""
        return await self._backend.ask(
            ask.PROJECTION_RESET, asked.ResetProjection(topic=self.topic, name=self.name, why=why, dry_run=dry_run)
        )

    async def dead(self) -> Sequence[asked.ShownDeadEvent]:
        """The events that its handler could not take, and those of their journals that wait."""
        return await self._backend.ask(ask.PROJECTION_DEAD, asked.ProjectionRequest(topic=self.topic, name=self.name))

    async def dead_show(self, partition: int, offset: int, number: int) -> asked.DeadEventContent:
        """A dead event with what it holds."""
        place = asked.DeadEventPlace(topic=self.topic, name=self.name, partition=partition, offset=offset, number=number)
        return await self._backend.ask(ask.PROJECTION_DEAD_SHOW, place)

    async def dead_retry(self, partition: int, offset: int, number: int, *, why: str = "", dry_run: bool = False) -> asked.DeadEventDecided:
        """Let the handler have a dead event again, from the first dead one of its journal on."""
        return await self._backend.ask(
            ask.PROJECTION_DEAD_RETRY, asked.RetryDeadEvent(**self._place(partition, offset, number), why=why, dry_run=dry_run)
        )

    async def dead_drop(self, partition: int, offset: int, number: int, *, why: str = "", dry_run: bool = False) -> asked.DeadEventDecided:
        """Drop a dead event: the handler never gets it. Those of its journal that wait for it go on."""
        return await self._backend.ask(
            ask.PROJECTION_DEAD_DROP, asked.DropDeadEvent(**self._place(partition, offset, number), why=why, dry_run=dry_run)
        )

    def _place(self, partition: int, offset: int, number: int) -> dict[str, Any]:
        return {"topic": self.topic, "name": self.name, "partition": partition, "offset": offset, "number": number}
