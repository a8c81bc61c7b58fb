"""Shell completion: names of topics, pipelines, sinks, adaptors, regions, tables, queues, journals and documents, looked up where the
command would.

After any error it offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import typer

from headwater.cli.at import At

_MOST_IDS = 10_000  # that are looked at
Complete = Callable[[typer.Context, str], list[str]]


def _completing(found: Callable[[Any, dict[str, Any]], Iterable[str]]) -> Complete:
    """The names that `found` returns for an open door and the words so far, if they begin with the typed text."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        words = ctx.params
        try:
            with At(data=words.get("data"), config=words.get("config"), server=words.get("server")).door(waits=False) as hw:
                return sorted(name for name in found(hw, words) if name.startswith(incomplete))
        except Exception:
            return []

    return complete


topics = _completing(lambda hw, words: (topic.name for topic in hw.log.topics()))
pipelines = _completing(lambda hw, words: (one.pipeline for one in hw.pipelines.list()))
sinks = _completing(lambda hw, words: (one.sink for one in hw.pipelines[words["name"]].offsets()))


regions = _completing(lambda hw, words: (f"{one.namespace}/{one.region}" for one in hw.wal.regions()))
queues = _completing(lambda hw, words: (one.queue for one in hw.queue.list()))
journal_topics = _completing(lambda hw, words: _journal_topics(hw))
journal_ids = _completing(lambda hw, words: islice(hw.journals(words["topic"]).ids(), _MOST_IDS))
documents = _completing(lambda hw, words: (one.path for one in islice(hw.documents.list(), _MOST_IDS)))
wal_tables = _completing(lambda hw, words: _tables_of(hw, words["region"]))


def _tables_of(hw: Any, region: str) -> list[str]:
    namespace, _, number = region.rpartition("/")
    return [str(one.table) for one in hw.wal(namespace or "wal")[int(number)].tables()]


def _journal_topics(hw: Any) -> Iterator[str]:
    """The names of topics, and the short ones that users type."""
    for one in hw.journals.list():
        yield one.topic
        if one.topic.startswith("journal-"):
            yield one.topic.removeprefix("journal-")


def adaptors(incomplete: str) -> list[str]:
    """The adaptors that are installed."""
    from headwater.pipeline.adaptors import names

    return sorted(name for name in names() if name.startswith(incomplete))
