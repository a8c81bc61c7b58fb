from __future__ import annotations

import pickle
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import BadInput, UnknownQueue
from headwater.log.embedded.log import EmbeddedLog
from headwater.queue.manager import QueueManager
from headwater.queue.queue import Queue
from headwater.queue.row import BINARY, NewRow
from headwater.queue.schedule import Schedule
from headwater.queue.spark_tables import OPTIONS, DeadRows, QueueChanges, QueueRows, queue_table
from headwater.queue.values import FailedClaim
from headwater.testing.clock import ManualClock
from headwater.wal.manager import RegionManager
from headwater.wal.metrics import WalMetrics
from headwater.wal.settings import WalSettings

pytestmark = pytest.mark.anyio
NOW = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
ROWS = """\
root
 |-- id: long (nullable = false)
 |-- key: binary (nullable = false)
 |-- data: binary (nullable = false)
 |-- form: string (nullable = false)
 |-- priority: short (nullable = false)
 |-- insertion_date: timestamp (nullable = false)
 |-- process_date: timestamp (nullable = false)
 |-- expiration_date: timestamp (nullable = true)
 |-- status: string (nullable = false)
 |-- start_processing_date: timestamp (nullable = true)
 |-- timeout_counter: short (nullable = false)
 |-- attempts: integer (nullable = false)
 |-- failures: integer (nullable = false)
 |-- lane: binary (nullable = false)
 |-- declaration: integer (nullable = false)
 |-- error: string (nullable = false)
 |-- lease_until: timestamp (nullable = true)
 |-- worker: string (nullable = false)
 |-- group: string (nullable = false)
 |-- follow_up: boolean (nullable = false)
 |-- schedule: string (nullable = false)
 |-- after: array (nullable = false)
 |    |-- element: long (containsNull = true)
"""
HISTORY = """\
root
 |-- sequence: long (nullable = false)
 |-- offset: long (nullable = false)
 |-- date: timestamp (nullable = false)
 |-- change: string (nullable = false)
 |-- id: long (nullable = true)
 |-- key: binary (nullable = true)
 |-- detail: string (nullable = false)
"""
DEAD = f"""{ROWS} |-- reason: string (nullable = false)
 |-- date: timestamp (nullable = false)
"""


class Ground:
    """The queue `pages` of a process, and its log."""

    def __init__(self, log: EmbeddedLog, queues: QueueManager, clock: ManualClock) -> None:
        self.log, self.queues, self.clock = log, queues, clock

    async def queue(self) -> Queue:
        return await self.queues.open("pages")

    def read(self, table: QueueRows | DeadRows | QueueChanges | None = None, split: int = 500_000) -> list[dict[str, Any]]:
        made = pickle.loads(pickle.dumps(found := table or QueueRows("pages", self.clock)))  # as tasks get it
        return [
            row
            for part in found.plan(self.log, split)
            for columns in made.rows(self.log, part, found.schema.names)
            for row in _dicts(columns)
        ]


def _dicts(columns: Any) -> list[dict[str, Any]]:
    cells = zip(*(column.to_pylist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    clock = ManualClock()
    with EmbeddedLog(tmp_path, clock=clock) as log, LocalOwnership(log, tmp_path / "owners") as owners:
        regions = RegionManager(log, lambda: owners, "queue", settings=WalSettings(), clock=clock, random=Random(1), metrics=WalMetrics())
        queues = QueueManager(log, regions, clock=clock)
        await queues.create("pages", {"lease": "60s"})
        yield Ground(log, queues, clock)
        await queues.aclose()
        await regions.aclose()


async def test_rows_are_those_that_the_owner_has(ground: Ground) -> None:
    queue = await ground.queue()
    assert ground.read() == []
    await queue.put([NewRow(key=b"a", data=b'{"x":1}', priority=10), NewRow(key=b"b", data=b"\x00", form=BINARY, delay=5000)])
    await queue.claim(worker="w", group="g")
    await queue.put([NewRow(key=b"a", data=b"2"), NewRow(key=b"gone"), NewRow(key=b"soon gone", expiration_date=ground.clock.now_ms() + 1)])
    await queue.cancel(b"gone")
    ground.clock.advance(0.001)
    first, second, third = ground.read(split=2)
    assert (first["key"], first["data"], first["form"], first["priority"], first["status"]) == (b"a", b'{"x":1}', "json", 10, "P")
    assert (first["worker"], first["group"], first["attempts"], first["timeout_counter"]) == ("w", "g", 1, 0)
    assert (first["insertion_date"], first["start_processing_date"]) == (NOW, NOW)
    assert (first["lease_until"] - NOW).total_seconds() == 60
    assert (second["key"], second["data"], second["form"], second["status"]) == (b"b", b"\x00", "binary", "W")
    assert ((second["process_date"] - NOW).total_seconds(), second["expiration_date"], second["lease_until"]) == (5, None, None)
    assert (third["key"], third["data"], third["follow_up"], third["after"]) == (b"a", b"2", True, [])
    await queue.put([NewRow(key=b"d", lane=b"t7", schedule=Schedule(every=3_600_000))])
    fourth = ground.read()[-1]
    assert (fourth["lane"], fourth["schedule"], third["schedule"]) == (b"t7", "every 1h", "")
    await queue.put([NewRow(key=b"last", after=(first["id"], second["id"]))])
    assert ground.read()[-1]["after"] == [first["id"], second["id"]]


async def test_dead_rows_have_a_view_of_their_own(ground: Ground) -> None:
    queue = await ground.queue()
    await queue.put([NewRow(key=b"a"), NewRow(key=b"b")])
    (claim,) = (await queue.claim(worker="w")).claims
    await queue.fail([FailedClaim(claim.token, "no such page", give_up=True)])
    assert [row["key"] for row in ground.read()] == [b"b"]
    (dead,) = ground.read(DeadRows("pages", ground.clock))
    assert (dead["key"], dead["reason"], dead["error"], dead["date"]) == (b"a", "given-up", "no such page", NOW)


async def test_rows_have_their_data_also_where_these_are_on_the_log_alone(ground: Ground) -> None:
    queue = await ground.queue()
    for key in (b"a", b"b"):
        await queue.put([NewRow(key=key, data=key * 5000, form=BINARY)])
    (claim,) = (await queue.claim()).claims
    await queue.put([NewRow(key=b"a", data=b"c" * 5000, form=BINARY)])
    await queue.release([claim.token], 0)
    (claim,) = (await queue.claim()).claims
    await queue.fail([FailedClaim(claim.token, give_up=True)])
    rows = [*ground.read(), *ground.read(DeadRows("pages", ground.clock))]
    assert {row["key"]: row["data"] for row in rows} == {b"a": b"c" * 5000, b"b": b"b" * 5000}


async def test_the_history_has_each_change_that_the_log_still_has(ground: Ground) -> None:
    queue = await ground.queue()
    await queue.put([NewRow(key=b"a", data=b"1"), NewRow(key=b"b", delay=1000)])
    await queue.put([NewRow(key=b"a", data=b"22")])
    (claim,) = (await queue.claim(worker="w")).claims
    await queue.fail([FailedClaim(claim.token, "no such page", give_up=True)])
    await queue.pause()
    await queue.cancel(b"b")
    found = ground.read(QueueChanges("pages", ground.clock), split=2)
    assert [(row["change"], row["key"]) for row in found] == [
        *(("insert", b"a"), ("insert", b"b"), ("merge", b"a"), ("claim", b"a"), ("dead", b"a"), ("pause", None), ("cancel", b"b")),
    ]
    assert ([row["sequence"] for row in found], found[0]["date"], found[2]["detail"]) == (
        [1, 1, 2, 3, 4, 5, 6],
        NOW,
        "priority 100, 2 bytes",
    )
    assert (found[0]["id"], "no such page" in found[4]["detail"], found[5]["id"]) == (claim.row.id, True, None)
    assert [row["offset"] for row in found] == sorted(row["offset"] for row in found)


async def test_a_queue_that_is_not_there_is_told_at_once(ground: Ground) -> None:
    QueueRows("pages").check(ground.log)
    with pytest.raises(UnknownQueue, match="Did you mean pages"):
        QueueRows("page").check(ground.log)
    with pytest.raises(BadInput):
        queue_table("a/b", {})


def test_options_choose_the_view() -> None:
    assert isinstance(queue_table("pages", {}), QueueRows)
    assert isinstance(queue_table("pages", {"View": "dead"}), DeadRows)
    assert isinstance(queue_table("pages", {"view": "history"}), QueueChanges)
    with pytest.raises(BadInput, match="no view 'log'"):
        queue_table("pages", {"view": "log"})


def test_the_schemas_are_frozen() -> None:
    assert from_arrow_schema(QueueRows.schema).treeString() == ROWS
    assert from_arrow_schema(DeadRows.schema).treeString() == DEAD
    assert from_arrow_schema(QueueChanges.schema).treeString() == HISTORY


def test_columns_and_options_are_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark.md").read_text("utf-8")
    section = page.split("### `queue:NAME`\n", 1)[1].split("\n### ", 1)[0]
    cells = re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)
    columns = {field.name: field.dataType.simpleString() for field in from_arrow_schema(DeadRows.schema)}
    assert dict(cells[: len(columns)]) == columns
    changes = {field.name: field.dataType.simpleString() for field in from_arrow_schema(QueueChanges.schema)}
    assert dict(cells[len(columns) : -1]) == changes
    assert [name for name, _ in cells[-1:]] == list(OPTIONS)
