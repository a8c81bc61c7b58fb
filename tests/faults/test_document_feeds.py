"""kill -9 of the writer of documents, at random moments and at exact steps: a feed is the history, and a view is its source, each once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from headwater.core.clock import SystemClock
from headwater.documents.change import ChangeRecord, decode_record
from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.feed_position import feed_mark
from headwater.documents.path import parse_path
from headwater.documents.prefix_feed import PlacedFeedEvent, PrefixFeeds
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.log.embedded.log import EmbeddedLog

ROUNDS = int(os.environ.get("SOAK_KILL_ROUNDS", "8"))
TOPIC = "hyper-storage"
Told = tuple[str, int, str, bytes]


@contextmanager
def _writer(folder: Path, seed: int, *, steps: int = 0, most: int = 0) -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("document_writer.py")
    command = [sys.executable, str(script), str(folder), str(seed), str(steps), str(most)]
    paths = [str(Path(__file__).parents[2]), *sys.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}) as process:
        try:
            yield process
        finally:
            process.kill()


def _records(log: EmbeddedLog) -> list[ChangeRecord]:
    read = [record for partition in range(2) for record in log.read(TOPIC, partition, 0, limit=1_000_000)]
    return [decode_record(record.value, f"offset {record.offset}") for record in read]


def _history(records: list[ChangeRecord], uri: str) -> list[Told]:
    return [
        (f"{uri}/{change.item}" if change.item else uri, change.revision, change.method, bytes(change.event))
        for record in records
        if record.uri == uri
        for change in record.changes
    ]


def _told(events: list[FeedEvent]) -> list[Told]:
    return [(event.path, event.revision, event.method, event.body) for event in events]


class _Followers:
    """Follow a collection and a prefix from the beginning to the last change, and come again after each cut, with what they had."""

    def __init__(self, feeds: DocumentFeeds, random: Random) -> None:
        self._feeds, self._random = feeds, random
        self.hats: list[FeedEvent] = []
        self.below: list[PlacedFeedEvent] = []

    async def follow_hats(self) -> None:
        while not self.hats or self.hats[-1].path != "hats~/last":
            after = self.hats[-1].revision if self.hats else 0
            async with aclosing(self._feeds.follow(parse_path("hats~"), after=after)) as following:
                async for portion in following:
                    self.hats += portion
                    if self._random.random() < 0.1 or self.hats[-1].path == "hats~/last":
                        break

    async def follow_below(self) -> None:
        start = f"{feed_mark(self._feeds.topic.generation)}:0,0"
        while {event.path for event, _ in self.below if b'"last"' in event.body} < {"dir/one", "dir/two"}:
            after = self.below[-1].position if self.below else start
            async with aclosing(PrefixFeeds(self._feeds).follow("dir/", after=after)) as following:
                portion = await anext(following)
                self.below += portion[: self._random.randrange(1, len(portion) + 1)]


def _killed(folder: Path, seed: int, answers: int, steps: int) -> list[tuple[str, int]]:
    """What a writer was answered that was killed after so many answers, or at such a step of its files."""
    with _writer(folder, seed, steps=steps) as process:
        assert process.stdout is not None
        found = [_answer(line) for line in islice(process.stdout, answers)]
        process.kill()
        return [*found, *(_answer(line) for line in process.stdout if line.endswith("\n"))]


def _finished(folder: Path, seed: int) -> list[tuple[str, int]]:
    with _writer(folder, seed, most=20) as process:
        assert process.stdout is not None
        found = [_answer(line) for line in process.stdout]
        assert process.wait() == 0
        return found


def _answer(line: str) -> tuple[str, int]:
    path, revision = line.split()
    return path, int(revision)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_feed_is_the_history_whenever_the_writer_is_killed(tmp_path: Path, seed: int) -> None:
    random, acknowledged = Random(seed), set[tuple[str, int]]()

    async def check() -> None:
        with EmbeddedLog(tmp_path) as log, SqliteDocumentStores(tmp_path / "documents") as stores:
            topic = log.create_topic(TOPIC, partitions=2, part="documents")
            feeds = DocumentFeeds(log, topic, lambda number: stores.partition(number, topic.generation).view(), SystemClock())
            followers = _Followers(feeds, random)
            following = asyncio.gather(followers.follow_hats(), followers.follow_below())
            for number in range(ROUNDS):
                answers, steps = (random.randrange(1, 150), 0) if number % 2 else (10_000, random.randrange(1, 120))
                acknowledged.update(await asyncio.to_thread(_killed, tmp_path, seed * 1000 + number, answers, steps))
            acknowledged.update(await asyncio.to_thread(_finished, tmp_path, seed))
            async with asyncio.timeout(120):
                await following
            await feeds.aclose()
            records = _records(log)
            assert _told(followers.hats) == _history(records, "hats~")
            for uri in ("dir/one", "dir/two"):
                assert _told([event for event, _ in followers.below if event.path == uri]) == _history(records, uri)
            changes = [change for uri in ("hats~", "dir/one", "dir/two") for change in _history(records, uri)]
            assert acknowledged <= {(path, revision) for path, revision, _, _ in changes}
            for uri in ("hats~", "dir/one", "dir/two", "cheap~"):
                revisions = [revision for _, revision, _, _ in _history(records, uri)]
                assert revisions == list(range(1, len(revisions) + 1))
            assert len(acknowledged) > 20
            _check_view(records)

    asyncio.run(check())


def _check_view(records: list[ChangeRecord]) -> None:
    """The view is what its source is, and each of its changes is one of the source's, in the source's order and never twice."""
    source, view = (_states(records, uri) for uri in ("hats~", "cheap~"))
    for item, values in source.items():
        wanted = [value if value is not None and value["price"] < 10 else None for value in values]
        shown = view.get(item, [])
        rest = iter(wanted)
        assert all(any(value == one for one in rest) for value in shown)
        assert (shown[-1] if shown else None) == wanted[-1]


def _states(records: list[ChangeRecord], uri: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for record in records:
        for change in record.changes if record.uri == uri else ():
            found.setdefault(change.item, []).append(msgspec.json.decode(change.state) if change.state else None)
    return found
