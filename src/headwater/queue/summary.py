"""What is told of a queue itself: its settings, and the declaration of its columns."""

from __future__ import annotations

from headwater.queue.answers import QueueSummary
from headwater.queue.catalogue_fold import QueueEntry
from headwater.queue.settings_form import show_settings


def summary_of(entry: QueueEntry, *, created: bool = False, dry_run: bool = False) -> QueueSummary:
    return QueueSummary(
        queue=entry.name,
        region=entry.region,
        settings=show_settings(entry.settings),
        version=entry.version,
        declaration=entry.declaration,
        declared=entry.declared,
        created=created,
        dry_run=dry_run,
    )
