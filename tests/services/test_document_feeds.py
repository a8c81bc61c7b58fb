"""Feeds of documents on a real Kafka: owners change, and what stale owners and strangers write is in no feed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from random import Random

import pytest
from tests.unit.documents.feed_ground import END, PARTITIONS, FeedGround, told

from headwater.documents.feed import DocumentFeeds
from headwater.documents.feed_event import FeedEvent
from headwater.documents.feed_position import feed_mark
from headwater.documents.path import parse_path
from headwater.documents.prefix_feed import PlacedFeedEvent, PrefixFeeds
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.log.epochs import EPOCH, Epochs, mark
from headwater.log.kafka.log import KafkaLog
from headwater.log.record import Record
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")
PATHS = ["shop~/a", "shop~/b", "shop~/c"]


class ClaimedGround(FeedGround):
    """Partitions that are claimed again and again. A former owner and a stranger write between."""

    def claim(self, partition: int) -> None:
        """Let another own a partition; the record of the owner before it comes too late."""
        writers = self.__dict__.setdefault("writers", {})
        before = writers.get(partition)
        writers[partition] = self.log.claim(self.topic.name, partition)
        if before is not None:
            late = Record(b"shop~", b'{"uri":"shop~","changes":[{"method":"put","revision":1,"item":"stale","event":{}}]}')
            assert isinstance(self.log, KafkaLog)
            self.log.send(self.topic.name, partition, [late], (EPOCH, mark(before.epoch)))
            self.log.append(self.topic.name, partition, [late])

    def append(self, partition: int, record: Record) -> int:
        if partition not in self.__dict__.get("writers", {}):
            self.claim(partition)
        (offset,) = self.__dict__["writers"][partition].append([record])
        return int(offset)

    def counts(self, partition: int, record: Record) -> bool:
        epochs: dict[int, Epochs] = self.__dict__.setdefault("epochs", {})
        return epochs.setdefault(partition, Epochs()).admits(record)


@pytest.fixture
def ground(kafka: str, tmp_path: Path) -> Iterator[ClaimedGround]:
    with KafkaLog(kafka) as log, SqliteDocumentStores(tmp_path) as stores:
        topic = log.create_topic(fresh("documents"), partitions=PARTITIONS)
        yield ClaimedGround(log, topic, [stores.partition(number, topic.generation) for number in range(PARTITIONS)])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_feed_is_what_its_owners_have_written(ground: ClaimedGround, seed: int) -> None:
    random = Random(seed)

    def write() -> None:
        for _ in range(80):
            if random.random() < 0.15:
                ground.claim(parse_place(ground, "shop~"))
            ground.random_write(random, PATHS, apply=random.random() < 0.6)
        ground.put(END, apply=False)

    async def follow(after: int, portion: int) -> list[FeedEvent]:
        events: list[FeedEvent] = []
        while not events or events[-1].path != END:
            async with aclosing(feeds.follow(parse_path("shop~"), after=events[-1].revision if events else after)) as following:
                async for found in following:
                    events += found
                    if len(found) >= portion or events[-1].path == END:
                        break
        return events

    async def follow_below() -> list[PlacedFeedEvent]:
        events: list[PlacedFeedEvent] = []
        while not events or events[-1].event.path != END:
            after = events[-1].position if events else f"{feed_mark(ground.topic.generation)}:0,0"
            async with aclosing(PrefixFeeds(feeds).follow("", after=after)) as following:
                events += await anext(following)
        return events

    async def check() -> None:
        ground.put("shop~/a")
        async with asyncio.timeout(90):
            one, two, three, below, _ = await asyncio.gather(
                follow(0, 1), follow(0, 10_000), follow(1, 5), follow_below(), asyncio.to_thread(write)
            )
        history = ground.history("shop~")
        assert told(one) == told(two) == history
        assert told(three) == history[1:]
        assert told([event for event, _ in below]) == history
        assert told(await follow(len(history) - 5, 1)) == history[-5:]
        await feeds.aclose()

    with asyncio.Runner() as runner:
        feeds = runner.run(_feeds(ground))
        runner.run(check())


async def _feeds(ground: FeedGround) -> DocumentFeeds:
    return ground.feeds()


def parse_place(ground: FeedGround, uri: str) -> int:
    return ground.feeds_of(uri).partition
