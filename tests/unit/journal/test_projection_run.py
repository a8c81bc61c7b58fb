"""Runs of projections: every event once, in order, whatever fails; dead events, decisions, resets."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import msgspec
import pytest
from tests.unit.journal.cipher_ground import PART, CipherGround, append, erase
from tests.unit.journal.ground import POISON, TOPIC, Ground, appended, deleted, random_records
from tests.unit.journal.projection_ground import GivenShares, ReadModel, fold, in_order, run_of

from headwater.core.errors import BadConfig, BadInput, Differs, Stopped, Unavailable
from headwater.journal.discovery import JournalTopic
from headwater.journal.entity_keys import EntityKeys
from headwater.journal.names import control_topic
from headwater.journal.projection import Projection
from headwater.journal.projection_requests import DeadEventPlace, DecideDeadEvent, ResetProjection
from headwater.journal.projection_run import ProjectionDone, ProjectionRun
from headwater.journal.projection_status import (
    dead_events,
    decide_dead_event,
    list_projections,
    reset_projection,
    show_dead_event,
    show_projection,
)
from headwater.testing.clock import ManualClock


@pytest.fixture
def model(tmp_path: Path) -> ReadModel:
    return ReadModel(tmp_path / "model.db")


@pytest.fixture
def topic(ground: Ground) -> JournalTopic:
    return ground.topic()


def history(ground: Ground, seed: int, count: int = 40) -> None:
    random = Random(seed)
    for partition, ids in ((0, "abc"), (1, "def")):
        ground.append(*random_records(random, count, ids=ids), partition=partition)


def check(ground: Ground, model: ReadModel) -> None:
    rows = model.rows()
    assert Counter(rows) == fold(ground.log)
    assert in_order(rows)


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_read_model_is_the_fold_of_the_topic(ground: Ground, topic: JournalTopic, model: ReadModel, batch: int) -> None:
    history(ground, batch)
    done = run_of(ground, model.projection(batch=batch)).run(once=True)
    check(ground, model)
    assert done.events == fold(ground.log).total()
    history(ground, batch + 1, 10)
    run_of(ground, model.projection(batch=batch)).run(once=True)
    check(ground, model)
    assert run_of(ground, model.projection(batch=batch)).run(once=True).events == 0
    (shown,) = list_projections(ground.log, topic)
    assert (shown.name, shown.positions, shown.lag, shown.dead) == ("seen", "sqlite", 0, 0)


def test_connections_of_apsw_and_asyncio_handlers(ground: Ground, topic: JournalTopic, tmp_path: Path) -> None:
    ground.append(appended("a", 1, 2), appended("b", 1))
    path = str(tmp_path / "other.db")

    def connect() -> apsw.Connection:
        connection = apsw.Connection(path)
        connection.execute("CREATE TABLE IF NOT EXISTS seen (id, number)")
        return connection

    async def handle(event: Any, connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO seen VALUES (?, ?)", (event.id, event.seq_nr))

    run_of(ground, Projection("bank", "other", handle, connect=connect)).run(once=True)
    assert list(connect().execute("SELECT * FROM seen")) == [("a", 1), ("a", 2), ("b", 1)]


def test_positions_of_plain_handlers_are_records(ground: Ground, topic: JournalTopic) -> None:
    history(ground, 5)
    seen: list[tuple[str, int, int]] = []
    projection = Projection("bank", "plain", lambda event: seen.append((event.id, event.seq_nr, event.offset)))
    run_of(ground, projection).run(once=True)
    assert Counter(seen) == fold(ground.log)
    assert in_order(seen)
    assert run_of(ground, projection).run(once=True).events == 0
    ground.append(appended("z", 1))
    assert run_of(ground, projection).run(once=True).events == 1
    assert list_projections(ground.log, topic)[0].positions == "records"


def test_only_events_with_a_tag(ground: Ground, topic: JournalTopic) -> None:
    ground.append(appended("a", 1, 2))
    seen: list[int] = []
    run_of(ground, Projection("bank", "t", lambda event: seen.append(event.seq_nr), tags={"t"})).run(once=True)
    run_of(ground, Projection("bank", "u", lambda event: seen.append(-1), tags={"u"})).run(once=True)
    assert seen == [1, 2]
    assert [one.lag for one in list_projections(ground.log, topic)] == [0, 0]


def test_a_failing_event_stops_its_partition(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1), appended("b", 1), appended("a", 2))
    ground.append(appended("d", 1), partition=1)
    model.fails = lambda event: event.id == "b"
    with pytest.raises(Stopped, match="fails at event 1 of 'b': ValueError: no b 1"):
        run_of(ground, model.projection()).run(once=True)
    assert sorted(row[0] for row in model.rows()) in (["a"], ["a", "d"])
    (dead,) = dead_events(ground.log, topic, "seen")
    assert (dead.state, dead.offset, dead.number, dead.id, dead.attempts) == ("stops", 1, 1, "b", 3)
    assert show_projection(ground.log, topic, "seen").standing == 1
    model.fails = lambda event: False
    run_of(ground, model.projection()).run(once=True)
    check(ground, model)
    assert not dead_events(ground.log, topic, "seen")


def decide(ground: Ground, topic: JournalTopic, verb: Any, offset: int, number: int, name: str = "seen") -> None:
    request = DecideDeadEvent(topic=TOPIC, name=name, partition=0, offset=offset, number=number)
    decide_dead_event(ground.log, topic, request, verb, "me")


def test_a_stopped_partition_goes_on_when_its_event_is_dropped(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1), appended("b", 1), appended("a", 2))
    model.fails = lambda event: event.id == "b"
    with pytest.raises(Stopped):
        run_of(ground, model.projection()).run(once=True)
    decide(ground, topic, "drop", 1, 1)  # while nothing runs
    run_of(ground, model.projection()).run(once=True)
    assert [row[:2] for row in model.rows()] == [("a", 1), ("a", 2)]
    assert not dead_events(ground.log, topic, "seen")


@pytest.mark.parametrize("kind", ["sqlite", "records"])
def test_parked_events_hold_up_their_own_journal(ground: Ground, topic: JournalTopic, model: ReadModel, kind: str) -> None:
    ground.append(appended("a", 1, 3), appended("b", 1), appended("a", 4), deleted("a", 1), appended("b", 2))
    plain: list[tuple[str, int, int]] = []

    def handle(event: Any) -> None:
        if model.fails(event):
            raise ValueError("no")
        plain.append((event.id, event.seq_nr, event.offset))

    projection = model.projection(on_error="park", attempts=2)
    if kind == "records":
        projection = Projection("bank", "seen", handle, on_error="park", attempts=2)

    def rows() -> list[tuple[str, int]]:
        found = model.rows() if kind == "sqlite" else plain
        assert in_order(found)
        return [row[:2] for row in found]

    model.fails = lambda event: (event.id, event.seq_nr) == ("a", 2)
    assert run_of(ground, projection).run(once=True).dead == 3
    assert rows() == [("a", 1), ("b", 1), ("b", 2)]
    found = dead_events(ground.log, topic, "seen")
    assert [(one.id, one.number, one.state, one.attempts) for one in found] == [
        ("a", 2, "failed", 2), ("a", 3, "waits", 0), ("a", 4, "waits", 0),
    ]  # fmt: skip
    ground.append(appended("a", 5), appended("b", 3))  # while nothing runs
    decide(ground, topic, "retry", 0, 3)  # tries the journal from its first dead event on
    assert run_of(ground, projection).run(once=True).dead == 4
    assert [one.attempts for one in dead_events(ground.log, topic, "seen")][:2] == [3, 0]
    decide(ground, topic, "drop", 2, 4)
    model.fails = lambda event: False
    decide(ground, topic, "retry", 0, 2)
    assert run_of(ground, projection).run(once=True).dead == 0
    assert rows() == [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("a", 2), ("a", 3), ("a", 5)]
    assert not dead_events(ground.log, topic, "seen")
    assert run_of(ground, projection).run(once=True).events == 0


def test_a_dropped_event_lets_its_journal_go_on(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1, 3))
    model.fails = lambda event: event.seq_nr == 1
    projection = model.projection(on_error="park")
    run_of(ground, projection).run(once=True)
    decide(ground, topic, "drop", 0, 1)
    run_of(ground, projection).run(once=True)
    assert [row[1] for row in model.rows()] == [2, 3]


@pytest.mark.parametrize("kind", ["sqlite", "records"])
def test_a_reset_makes_it_anew(ground: Ground, topic: JournalTopic, model: ReadModel, kind: str) -> None:
    history(ground, 8)
    plain: list[tuple[str, int, int]] = []

    def handle(event: Any) -> None:
        plain.append((event.id, event.seq_nr, event.offset))

    projection = model.projection() if kind == "sqlite" else Projection("bank", "seen", handle, reset=plain.clear)
    run_of(ground, projection).run(once=True)
    request = ResetProjection(topic=TOPIC, name="seen", why="test")
    reset_projection(ground.log, topic, ResetProjection(topic=TOPIC, name="seen", dry_run=True), "")
    assert not show_projection(ground.log, topic, "seen").resets
    reset_projection(ground.log, topic, request, "me")
    assert show_projection(ground.log, topic, "seen").resets
    run_of(ground, projection).run(once=True)
    assert Counter(model.rows() if kind == "sqlite" else plain) == fold(ground.log)
    assert not show_projection(ground.log, topic, "seen").resets
    assert run_of(ground, projection).run(once=True).events == 0


def test_a_stale_owner_writes_nothing(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1))
    paused = run_of(ground, model.projection())
    shares = GivenShares([0])
    paused._turn(shares)
    assert [row[1] for row in model.rows()] == [1]
    ground.append(appended("a", 2))
    run_of(ground, model.projection()).run(once=True)  # takes over, and handles event 2
    paused._turn(shares)
    assert [row[1] for row in model.rows()] == [1, 2]
    assert not paused._owned  # it knows that it lost the partition
    check(ground, model)


def test_a_stale_owner_whose_positions_are_records_writes_nothing(ground: Ground, topic: JournalTopic) -> None:
    seen: list[int] = []
    projection = Projection("bank", "plain", lambda event: seen.append(event.seq_nr))
    ground.append(appended("a", 1))
    paused, shares = run_of(ground, projection), GivenShares([0])
    paused._turn(shares)
    held = paused._owned[0]
    ground.append(appended("a", 2))
    run_of(ground, projection).run(once=True)
    before = show_projection(ground.log, topic, "plain").partitions[0].offset
    held.release()  # its late progress does not count
    assert show_projection(ground.log, topic, "plain").partitions[0].offset == before == 2
    paused._turn(shares)
    assert not paused._owned
    again = run_of(ground, projection).run(once=True)
    assert again.events == 0


def test_a_handler_that_ends_its_transaction_is_refused(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1))

    def handle(event: Any, connection: Any) -> None:
        connection.commit()

    with pytest.raises(Stopped, match="has ended the transaction"):
        run_of(ground, Projection("bank", "x", handle, connect=model.connect)).run(once=True)
    with pytest.raises(BadInput, match="no position can be kept"):
        run_of(ground, Projection("bank", "y", handle, connect=lambda: object())).run(once=True)


def test_another_log_is_told(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1), appended("a", 2))
    run_of(ground, model.projection()).run(once=True)
    ground.log.delete_topic(TOPIC, part="journal")
    made = ground.topic()
    with pytest.raises(Stopped, match="was deleted and created again"):
        run_of(ground, model.projection()).run(once=True)
    ground.append(appended("b", 1))
    reset_projection(ground.log, made, ResetProjection(topic=TOPIC, name="seen"), "")
    run_of(ground, model.projection()).run(once=True)
    check(ground, model)


def test_an_older_copy_of_the_log_is_told(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1), appended("a", 2))
    run_of(ground, model.projection()).run(once=True)
    connection = model.connect()
    connection.execute("UPDATE headwater_projection SET last = '1:2:00000000' WHERE partition = 0")
    connection.commit()
    connection.close()
    with pytest.raises(Stopped, match="holds another event at offset 1"):
        run_of(ground, model.projection()).run(once=True)


def test_an_unreadable_record_stops_its_partition_until_it_is_left_out(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    from headwater.journal.dead import quarantine

    ground.append(appended("a", 1), POISON, appended("a", 2))
    with pytest.raises(Stopped, match="stands"):
        run_of(ground, model.projection()).run(once=True)
    assert [row[1] for row in model.rows()] == [1]
    quarantine(ground.log, topic, 0, 1, why="test")
    run_of(ground, model.projection()).run(once=True)
    assert [row[1] for row in model.rows()] == [1, 2]


def test_deleted_records_are_told_or_read_from_the_copy(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1, 2), appended("b", 1))
    ground.loop().catch_up()
    ground.append(appended("a", 3))
    ground.log.delete_before(TOPIC, 0, 2, part="journal")
    with pytest.raises(Stopped, match="the records 0 to 1 are deleted"):
        run_of(ground, model.projection()).run(once=True)
    run_of(ground, model.projection(copied=True, batch=1)).run(once=True)
    assert [row[:2] for row in model.rows()] == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]
    assert run_of(ground, model.projection(copied=True)).run(once=True).events == 0


def test_a_topic_that_is_created_again_ends_a_run(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    run = run_of(ground, model.projection())
    ground.log.delete_topic(TOPIC, part="journal")
    ground.topic()
    with pytest.raises(Differs):
        run._turn(GivenShares([0]))


def test_changed_tags_are_told(ground: Ground, topic: JournalTopic, model: ReadModel, caplog: pytest.LogCaptureFixture) -> None:
    ground.append(appended("a", 1))
    run_of(ground, model.projection()).run(once=True)
    assert not caplog.records
    run_of(ground, model.projection(tags={"t"})).run(once=True)
    assert "the tags of the projection seen have changed" in caplog.text
    run_of(ground, Projection("bank", "seen", print, tags={"t"})).run(once=True)
    assert "kept its positions as sqlite before, and now as records" in caplog.text


def test_a_database_that_does_not_answer_is_told(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1))

    def handle(event: Any, connection: Any) -> None:
        connection.close()

    run = run_of(ground, Projection("bank", "closes", handle, connect=model.connect))
    run._turn(GivenShares([0]))
    assert "The database does not answer" in show_projection(ground.log, topic, "closes").partitions[0].error
    away, clock = run_of(ground, Projection("bank", "away", handle, connect=lambda: 1 / 0)), ground.clock
    assert isinstance(clock, ManualClock)
    with pytest.raises(Unavailable, match="ZeroDivisionError"):
        for _ in range(10):
            away._turn(GivenShares([0]))
            away._caught_up(GivenShares([0]), {0: 1})
            clock.advance(10.0)


def test_a_reset_counts_although_the_control_topic_is_an_older_copy(ground: Ground, topic: JournalTopic, model: ReadModel) -> None:
    ground.append(appended("a", 1))
    run_of(ground, model.projection()).run(once=True)
    connection = model.connect()
    connection.execute("UPDATE headwater_projection SET decision = 1000")
    connection.commit()
    connection.close()
    reset_projection(ground.log, topic, ResetProjection(topic=TOPIC, name="seen"), "")
    assert run_of(ground, model.projection()).run(once=True).events == 1
    check(ground, model)


# -- encrypted topics -----------------------------------------------------------------------------------------


class Secrets:
    """A projection of an encrypted topic: what its handler got."""

    def __init__(self, ground: CipherGround, path: Path | None) -> None:
        self.ground, self.path = ground, path
        self.got: list[tuple[str, int, object]] = []
        self.fails: set[str] = set()

    def connect(self) -> sqlite3.Connection:
        assert self.path is not None
        return sqlite3.connect(self.path)

    def run(self, *, keys: EntityKeys | None = None, **options: Any) -> ProjectionDone:
        def handle(event: Any, connection: Any = None) -> None:
            if event.id in self.fails:
                raise ValueError(f"cannot take {event.payload}")
            self.got.append((event.id, event.seq_nr, event.payload))

        connect = None if self.path is None else self.connect
        projection = Projection("bank", "secrets", handle, connect=connect, attempts=1, **options)
        log, clock = self.ground.log, self.ground.clock
        shares: Any = lambda topic: GivenShares([0])  # noqa: E731
        made = ProjectionRun(
            projection, log, log.topic(TOPIC), store=lambda: self.ground.store, shares=shares, clock=clock, keys=lambda: keys
        )
        return made.run(once=True)


@pytest.fixture(params=["records", "sqlite"])
async def secrets(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Secrets]:
    made = CipherGround(tmp_path)
    yield Secrets(made, tmp_path / "model.db" if request.param == "sqlite" else None)
    await made.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("batch", [1, 100])
async def test_a_handler_gets_clear_payloads_and_no_erased_event(secrets: Secrets, batch: int) -> None:
    ground = secrets.ground
    one = ground.process()
    await append(one, "alice", {"a": 1}, "text")
    await append(one, "bob", "gone")
    await append(one, "alice", b"bytes")
    await erase(one, "bob")
    done = secrets.run(keys=ground.keys(), batch=batch)
    assert secrets.got == [("alice", 1, {"a": 1}), ("alice", 2, "text"), ("alice", 3, b"bytes")]
    assert done.events == 3
    assert secrets.run(keys=ground.keys(), batch=batch).events == 0  # the mark of the last event is of what the log holds
    await append(one, "alice", "more")
    secrets.run(keys=ground.keys(), batch=batch)
    assert secrets.got[-1] == ("alice", 4, "more")


@pytest.mark.anyio
async def test_without_the_key_a_partition_stands_and_parks_nothing(secrets: Secrets) -> None:
    ground = secrets.ground
    await append(ground.process(), "alice", "a")
    for _ in range(2):
        with pytest.raises(Stopped, match="no master key is configured"):
            secrets.run(on_error="park")
    (shown,) = list_projections(ground.log, described(ground))
    assert (shown.dead, shown.standing, shown.lag) == (0, 1, 1)
    assert secrets.got == []
    assert secrets.run(keys=ground.keys(), on_error="park").dead == 0
    assert secrets.got == [("alice", 1, "a")]


@pytest.mark.anyio
async def test_an_envelope_that_cannot_be_opened_stops_its_partition_behind_those_before(secrets: Secrets) -> None:
    ground = secrets.ground
    one = ground.process()
    await append(one, "alice", "a")
    await append(one, "alice", "b")
    (moved,) = ground.log.read(TOPIC, 0, 0, limit=1)
    ground.log.append(TOPIC, 0, [msgspec.structs.replace(moved, key=b"bob", offset=None)], part=PART)
    await append(one, "carol", "c")
    with pytest.raises(Stopped, match="not in the key store"):
        secrets.run(keys=ground.keys(), on_error="park")
    assert [id for id, *_ in secrets.got] == ["alice", "alice"]
    (shown,) = list_projections(ground.log, described(ground))
    assert (shown.dead, shown.standing) == (0, 1)


@pytest.mark.anyio
async def test_dead_events_of_an_encrypted_topic(secrets: Secrets) -> None:
    ground, topic = secrets.ground, described(secrets.ground)
    one = ground.process()
    await append(one, "alice", "a-secret")
    await append(one, "bob", "b-secret")
    secrets.fails = {"alice", "bob"}
    assert secrets.run(keys=ground.keys(), on_error="park").dead == 2
    dead = dead_events(ground.log, topic, "secrets")
    assert [(event.id, event.error.split()[0]) for event in dead] == [("alice", "ValueError"), ("bob", "ValueError")]
    control = ground.log.read(control_topic(TOPIC), 0, 0, limit=1000)
    assert not any(b"-secret" in (record.value or b"") for record in control)  # what a handler's error quotes would outlive an erasure
    place = {"topic": TOPIC, "name": "secrets", "partition": 0, "number": 1}
    shown = show_dead_event(ground.log, topic, DeadEventPlace(offset=0, **place), one.cipher.open_kept)  # type: ignore[arg-type]
    assert shown.event is not None
    assert shown.event["payload"] == "a-secret"
    without = ground.process(configured=False)
    with pytest.raises(BadConfig):
        show_dead_event(ground.log, topic, DeadEventPlace(offset=0, **place), without.cipher.open_kept)  # type: ignore[arg-type]
    await erase(one, "bob")
    gone = show_dead_event(ground.log, topic, DeadEventPlace(offset=1, **place), one.cipher.open_kept)  # type: ignore[arg-type]
    assert gone.event is None
    secrets.fails = set()
    for offset in (0, 1):
        decide_dead_event(ground.log, topic, DecideDeadEvent(offset=offset, why="x", **place), "retry", "me")  # type: ignore[arg-type]
    done = secrets.run(keys=ground.keys(), on_error="park")
    assert (done.dead, done.events) == (0, 1)  # the erased one is settled without the handler
    assert secrets.got == [("alice", 1, "a-secret")]


def described(ground: CipherGround) -> JournalTopic:
    return JournalTopic(TOPIC, 1, ground.topic.generation)
