"""The background work of a server that serves documents: recovery, expiry, chores and templates of indexes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.cluster import Ownership
from headwater.core.clock import Clock
from headwater.core.timers import Timers
from headwater.documents.chores import DocumentChores
from headwater.documents.expiry import DocumentExpiry
from headwater.documents.index.templates import TemplateIndexes
from headwater.documents.metrics import DocumentMetrics
from headwater.documents.named_loop import PartitionLoop
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.recovery import HotRecovery, RecoveryNotes, StaleRecovery


class DocumentLoops:
    """Starts and stops the loops. Belongs to one event loop. `folder`: of the checkpoints of stale recovery."""

    def __init__(
        self,
        documents: OpenDocuments,
        owners: Callable[[], Ownership],
        *,
        templates: TemplateIndexes,
        folder: Path,
        clock: Clock,
        metrics: DocumentMetrics,
    ) -> None:
        settings, timers = documents.settings, Timers(clock)
        self._hot = HotRecovery(documents, owners, settings=settings, clock=clock, timers=timers, metrics=metrics)
        notes = RecoveryNotes(folder)
        self._stale = StaleRecovery(documents, notes, settings=settings, clock=clock, timers=timers, metrics=metrics)
        self._expiry = DocumentExpiry(documents, timers=timers, clock=clock, metrics=metrics)
        self._chores = DocumentChores(documents, settings=settings, clock=clock, timers=timers)
        # Another server may have made a template; and what has failed is tried again.
        self._templates = PartitionLoop(
            "templates", documents.owned, templates.look, period=int(settings.chores), timers=timers, clock=clock
        )

    def start(self) -> None:
        """Begin. Starting twice is no error."""
        self._expiry.start()
        self._chores.start()
        self._templates.start()
        self._hot.loop.start()
        self._stale.loop.start()

    async def stop(self) -> None:
        """Finish what is under way. Stopping twice is no error."""
        for loop in (self._templates, self._stale.loop, self._hot.loop, self._chores, self._expiry):
            await loop.stop()
