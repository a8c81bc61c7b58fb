"""Shell completion: names of topics, pipelines, sinks, adaptors, regions, tables, queues, keys, journals, projections, documents, indexes
and views, looked up where the command would.

After any error it offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import typer

from headwater.cli.at import At

_MOST_IDS = 10_000  # that are looked at
_ITEMS = 200  # of a collection that are offered
Complete = Callable[[typer.Context, str], list[str]]


def _completing(lookup: Callable[[Any, dict[str, Any], str], Iterable[str]]) -> Complete:
    """The names that `lookup` returns for an open door, the words so far and the typed text, if they begin with that text."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        words = _words(ctx)
        try:
            with At(data=words.get("data"), config=words.get("config"), server=words.get("server")).door(waits=False) as hw:
                return sorted(name for name in lookup(hw, words, incomplete) if name.startswith(incomplete))
        except Exception:
            return []

    return complete


def _words(ctx: typer.Context) -> dict[str, Any]:
    """The values of parameters so far. Where an option's value is being typed, the arguments before it are not assigned yet."""
    arguments = [parameter.name for parameter in ctx.command.params if parameter.param_type_name == "argument"]
    options = {name: value for name, value in ctx.params.items() if value is not None}
    return {**dict(zip(map(str, arguments), ctx.args, strict=False)), **options}


topics = _completing(lambda hw, words, typed: (topic.name for topic in hw.log.topics()))
pipelines = _completing(lambda hw, words, typed: (pipeline.pipeline for pipeline in hw.pipelines.list()))
sinks = _completing(lambda hw, words, typed: (sink.sink for sink in hw.pipelines[words["name"]].offsets()))
regions = _completing(lambda hw, words, typed: (f"{region.namespace}/{region.region}" for region in hw.wal.regions()))
wal_tables = _completing(lambda hw, words, typed: _tables_of(hw, words["region"]))
queues = _completing(lambda hw, words, typed: (queue.queue for queue in hw.queue.list()))
queue_keys = _completing(lambda hw, words, typed: (str(row.key) for row in islice(hw.queue(words["queue"]).rows(prefix=typed), _MOST_IDS)))
journal_topics = _completing(lambda hw, words, typed: _journal_topics(hw))
journal_ids = _completing(lambda hw, words, typed: islice(hw.journals(words["topic"]).ids(), _MOST_IDS))
projections = _completing(lambda hw, words, typed: (projection.name for projection in hw.journals(words["topic"]).projections()))
documents = _completing(lambda hw, words, typed: _paths(hw, typed))
prefixes = _completing(lambda hw, words, typed: (document.path for document in islice(hw.documents.list(typed), _MOST_IDS)))
indexes = _completing(lambda hw, words, typed: (index.index_id for index in hw.documents[words["path"]].indexes.list()))
views = _completing(lambda hw, words, typed: (view.path for view in hw.documents.views.list()))


def _paths(hw: Any, typed: str) -> Iterator[str]:
    """The paths of documents and collections, and behind `shop/catalogue~/` those of its items."""
    collection, tilde, _ = typed.partition("~/")
    if not tilde:
        yield from (document.path for document in islice(hw.documents.list(typed), _MOST_IDS))
        return
    for item in hw.documents[f"{collection}~"].query(size=_ITEMS):
        yield f"{collection}~/{item['id']}"


def _tables_of(hw: Any, region: str) -> list[str]:
    namespace, _, number = region.rpartition("/")
    return [str(table.table) for table in hw.wal(namespace or "wal")[int(number)].tables()]


def _journal_topics(hw: Any) -> Iterator[str]:
    """The names of topics, and the short ones that users type."""
    for topic in hw.journals.list():
        yield topic.topic
        if topic.topic.startswith("journal-"):
            yield topic.topic.removeprefix("journal-")


def adaptors(incomplete: str) -> list[str]:
    """The adaptors that are installed."""
    from headwater.pipeline.adaptors import names

    return sorted(name for name in names() if name.startswith(incomplete))
