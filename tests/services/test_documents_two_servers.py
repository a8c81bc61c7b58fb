"""Two servers of documents on one Kafka and one Cassandra, one of them with two workers: any process takes writes and batches, which reach
the owner, and when that is killed the other takes over."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal

import httpx2
import pytest
from document_crowd import CONTENT, Crowd, CrowdFollower, CrowdWriter, check, stopped, wait_until
from tests.conftest import OwnServers

from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.log_ground import PATIENCE

pytestmark = pytest.mark.service("cassandra")
Way = Literal["kill", "pause", "stop"]
WAYS: tuple[Way, ...] = ("kill", "pause", "stop")
PATHS = ["settings", "users/ann", "shop/items~/hat", "shop/items~/sock", "orders~/1"]


@pytest.fixture
def crowd(private_servers: OwnServers, cassandra: tuple[str, int], tmp_path: Path) -> Iterator[Crowd]:
    """A Kafka of its own: the topic of documents has one name."""
    host, port = cassandra
    name = f"documents_{uuid.uuid4().hex}"
    kafka = private_servers.up("kafka").kafka
    crowd = Crowd(
        tmp_path,
        f"""
[log]
engine = "kafka"
[kafka]
bootstrap = ["{kafka}"]
[store]
engine = "cassandra"
[cassandra]
contact_points = ["{host}:{port}"]
keyspace = "{name}"
timeout = "60s"
""",
    )
    try:
        yield crowd
    finally:
        crowd.close()
        with Keyspace(CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))) as keyspace:
            keyspace.run(f"drop keyspace if exists {name}")


def moved(crowd: Crowd, ways: Sequence[Way]) -> None:
    """Take one server and then the other out of the crowd, while everybody writes and follows."""
    first, second = crowd.start(0), crowd.start(1)
    made = httpx2.put(f"{first}{CONTENT}/first", json=1, timeout=PATIENCE)
    assert made.status_code == 201, made.text
    elsewhere = httpx2.put(f"{second}{CONTENT}/first", json=2, timeout=PATIENCE)
    assert elsewhere.headers.get("headwater-owner", second) in (first, second)
    assert elsewhere.json()["revision"] == 2, elsewhere.text
    writers = [CrowdWriter(crowd, path, number, batches=number % 3 == 2) for number, path in enumerate([*PATHS, "settings"])]
    followers = [CrowdFollower(crowd, path) for path in ("settings", "shop/items~")]
    with ExitStack() as running:
        for thread in (*writers, *followers):
            thread.start()
        running.callback(stopped, [*writers, *followers])
        wait_until(lambda: all(len(writer.acknowledged) > 5 for writer in writers), "nothing is written")
        for turn, way in enumerate(ways):
            leaving = turn % 2
            wait_until(lambda: crowd.active(0) and crowd.active(1), f"turn {turn}: both own something")
            getattr(crowd, way)(leaving)
            before = {writer: len(writer.acknowledged) for writer in writers}
            taken_over = partial(_all_went_on, before)
            wait_until(taken_over, f"turn {turn}, {way}: the other takes over")
            assert crowd.active(1 - leaving)
            if way == "pause":
                crowd.resume(leaving)
            else:
                crowd.start(leaving)
        stopped(writers)
        stopped(followers)
    total = check(list(crowd.urls.values()), writers, followers)
    hops = sum(writer.hops for writer in writers)
    print(f"{len(ways)} owners left, {total} changes, {hops} hops, {sum(writer.waits for writer in writers)} waits")
    assert hops > 0  # some were sent to the wrong server, which asked the owner
    assert sum(writer.reads for writer in writers) > 0


def _all_went_on(before: Mapping[CrowdWriter, int]) -> bool:
    return all(len(writer.acknowledged) > count + 3 for writer, count in before.items())


def test_the_owner_leaves_and_the_other_goes_on(crowd: Crowd) -> None:
    """One is killed, one stands still and comes back, one is stopped."""
    moved(crowd, ["kill", "pause", "stop"])


@pytest.mark.soak
def test_owners_leave_again_and_again(crowd: Crowd) -> None:
    random = Random(7)
    moved(crowd, ["kill", *(random.choice(WAYS) for _ in range(199))])
