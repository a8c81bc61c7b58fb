"""Performs the operations on projections in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.client.journal_topics import OpenTopics
from headwater.client.local import LocalLog
from headwater.core.metrics import Metrics
from headwater.journal import projection_operations as ask
from headwater.journal import projection_requests as asked
from headwater.journal import projection_status as status
from headwater.journal.discovery import JournalTopic
from headwater.journal.projection_metrics import ProjectionMetrics, ProjectionReadings
from headwater.journal.requests import JournalsRequest
from headwater.log import Log
from headwater.log.record import Topic
from headwater.wire.operation import Operation

if TYPE_CHECKING:
    from headwater.client.journal_performer import JournalPerformer

T = TypeVar("T")
_DECISIONS = (ask.PROJECTION_RESET, ask.PROJECTION_DEAD_RETRY, ask.PROJECTION_DEAD_DROP)


def measure(metrics: Metrics, performer: JournalPerformer, log: LocalLog) -> None:
    """Let the metrics of a server read how far projections are."""
    projections = performer.projections
    projections.metrics.read = ProjectionReadings(lambda: log.opened, performer.topics_open.journal.prefixes)
    metrics.add(projections.metrics)


class JournalProjections:
    """One method for each operation of the same name. Its work runs in threads."""

    def __init__(self, topics: OpenTopics) -> None:
        self._topics, self.metrics = topics, ProjectionMetrics()

    async def perform(self, operation: Operation[Any, Any], request: Any, who: str) -> Any:
        """Perform one of them. `who`: the caller, whom the audit of decisions names."""
        call = getattr(self, operation.name)
        return await (call(request, who) if operation in _DECISIONS else call(request))

    async def _work(self, request: JournalsRequest, call: Callable[[Log, JournalTopic], T]) -> T:
        return await self._topics.reading(request.topic, lambda opened: call(opened.log, _described(opened.topic)))

    async def projections(self, request: JournalsRequest) -> Sequence[asked.ShownProjection]:
        return await self._work(request, status.list_projections)

    async def projection(self, request: asked.ProjectionRequest) -> asked.ShownProjection:
        return await self._work(request, lambda log, topic: status.show_projection(log, topic, request.name))

    async def projection_reset(self, request: asked.ResetProjection, who: str = "") -> asked.ProjectionResets:
        return await self._work(request, lambda log, topic: status.reset_projection(log, topic, request, who))

    async def projection_dead(self, request: asked.ProjectionRequest) -> Sequence[asked.ShownDeadEvent]:
        return await self._work(request, lambda log, topic: status.dead_events(log, topic, request.name))

    async def projection_dead_show(self, request: asked.DeadEventPlace) -> asked.DeadEventContent:
        return await self._topics.reading(
            request.topic,
            lambda opened: status.show_dead_event(opened.log, _described(opened.topic), request, opened.cipher.open_kept),
        )

    async def projection_dead_retry(self, request: asked.DecideDeadEvent, who: str = "") -> asked.DeadEventDecided:
        return await self._work(request, lambda log, topic: status.decide_dead_event(log, topic, request, "retry", who))

    async def projection_dead_drop(self, request: asked.DecideDeadEvent, who: str = "") -> asked.DeadEventDecided:
        return await self._work(request, lambda log, topic: status.decide_dead_event(log, topic, request, "drop", who))


def _described(topic: Topic) -> JournalTopic:
    return JournalTopic(topic.name, topic.partitions, topic.generation)
