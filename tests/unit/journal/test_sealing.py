"""The keys of a partition's writer, and its part in erasures: beside other processes, and after each step that may be the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.unit.journal.cipher_ground import TOPIC, CipherGround, append, erase, rows, values

from headwater.core.errors import KeyReused, OutcomeUnknown, TooLarge, WrongExpected
from headwater.journal.append_draft import draft
from headwater.journal.entity_keys import KEPT, EntityKeys
from headwater.journal.envelope import read_envelope
from headwater.journal.event import Event
from headwater.journal.idempotency import HASH
from headwater.journal.open_topic import OpenTopic
from headwater.journal.write import ActionPlaced, Appended, Condition, PurgeDraft

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[CipherGround]:
    ground = CipherGround(tmp_path)
    yield ground
    await ground.aclose()


def states(ground: CipherGround, id: str) -> list[str]:
    """Destroyed ones first: keys of one instant have no order."""
    return sorted((key.state for key in ground.keys().store.keys(TOPIC, [id]).get(id, [])), key=["destroyed", "retired", "active"].index)


async def test_an_entity_has_one_key_and_another_one_after_its_erasure(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", "a")
    await append(other, "alice", "b")
    await append(one, "bob", "c")
    used = {read_envelope(row.payload.data).key_id for row in rows(one, "alice", raw=True)}  # type: ignore[union-attr]
    assert len(used) == 1
    placed = await erase(one, "alice")
    assert isinstance(placed, ActionPlaced)
    assert values(other, "alice") == []
    assert values(other, "bob") == ["c"]
    assert states(ground, "alice") == ["destroyed"]
    (erasure,) = ground.erasures()
    assert (erasure.id, erasure.offset, erasure.who, erasure.why) == ("alice", placed.offset, "me", "asked")
    assert erasure.key_ids() == list(used)
    appended = await append(other, "alice", "anew")  # whose process has the old key in memory
    assert appended.first == 1
    assert values(one, "alice") == ["anew"]
    assert states(ground, "alice") == ["destroyed", "active"]


async def test_erasing_twice_and_erasing_nothing(ground: CipherGround) -> None:
    one = ground.process()
    assert await erase(one, "nobody") is None
    await append(one, "alice", "a")
    await erase(one, "alice")
    assert await erase(one, "alice") is None
    assert len(ground.erasures()) == 1


async def test_a_purged_journal_keeps_its_key_until_it_is_erased(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", "a")
    await one.writer("alice").write(PurgeDraft("alice"))
    assert states(ground, "alice") == ["active"]
    assert isinstance(await erase(one, "alice"), ActionPlaced)
    assert states(ground, "alice") == ["destroyed"]


async def test_clear_events_of_older_times_are_purged_too(tmp_path: Path) -> None:
    ground = CipherGround(tmp_path, on=False)
    one = ground.process()
    await append(one, "alice", "clear")
    one.cipher.turn_on()
    assert isinstance(await erase(one, "alice"), ActionPlaced)
    assert values(one, "alice") == []
    await append(one, "alice", "sealed")
    assert values(one, "alice") == ["sealed"]
    await ground.aclose()


class Dying(Exception):
    """The process dies."""


STEPS = ["retire", "purge", "note", "destroy"]


async def half_erased(ground: CipherGround, step: str, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    """Erase "alice" in a process that dies before or after a step."""
    keys = ground.keys()
    dying = ground.process(keys=keys)
    await append(dying, "alice", "old")

    def dies(call: Callable[..., object]) -> Callable[..., object]:
        def die(*given: object, **named: object) -> object:
            if after:
                call(*given, **named)
            raise Dying

        return die

    with monkeypatch.context() as patch:
        if step in ("retire", "destroy"):
            patch.setattr(keys.store, step, dies(getattr(keys.store, step)))
        elif step == "note":
            patch.setattr(dying.cipher._control, "append", dies(dying.cipher._control.append))
        else:
            log = dying.writer("alice")._log  # type: ignore[union-attr]
            patch.setattr(log, "append", dies(log.append))
        with pytest.raises(Dying):
            await erase(dying, "alice")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("next", ["erase", "append", "another"])
async def test_a_half_done_erasure_is_finished(
    ground: CipherGround, step: str, after: bool, next: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await half_erased(ground, step, monkeypatch, after=after)
    survivor = ground.process()
    if next == "erase":
        await erase(survivor, "alice")
    elif next == "append":
        await append(survivor, "alice", "new")
    else:
        await append(survivor, "bob", "new")
    begun = step != "retire" or after
    if next == "erase" or begun:
        assert states(ground, "alice") == (["destroyed", "active"] if next == "append" else ["destroyed"])
        assert [erasure.id for erasure in ground.erasures()][:1] == ["alice"]
        assert values(survivor, "alice") == (["new"] if next == "append" else [])
    else:
        assert values(survivor, "alice") == ["old", "new"] if next == "append" else ["old"]
    assert values(ground.process(), "bob") == (["new"] if next == "another" else [])


@pytest.mark.parametrize("step", ["purge", "note", "destroy"])
async def test_a_process_that_runs_finishes_it_when_its_keys_are_old(
    ground: CipherGround, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor = ground.process()
    await append(survivor, "alice", "kept in memory")
    await half_erased(ground, step, monkeypatch, after=False)
    await append(survivor, "alice", "in between")  # before the Purge, or with a new key
    ground.clock.advance(KEPT + 1)
    await append(survivor, "alice", "new")
    assert values(survivor, "alice")[-1] == "new"
    assert values(ground.process(), "alice") == values(survivor, "alice")
    await erase(survivor, "alice")
    assert set(states(ground, "alice")) == {"destroyed"}


async def test_an_append_during_an_erasure_is_never_lost_nor_unreadable(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    acknowledged: list[tuple[int, str]] = []

    async def writes(opened: OpenTopic, name: str) -> None:
        for number in range(40):
            appended = await append(opened, "alice", f"{name}-{number}")
            acknowledged.append((appended.offset, f"{name}-{number}"))

    async def erases() -> None:
        for _ in range(6):
            await erase(other, "alice")
            await asyncio.sleep(0)

    await asyncio.gather(writes(one, "one"), writes(other, "other"), erases())
    last = max(erasure.offset for erasure in ground.erasures())
    expected = [text for offset, text in sorted(acknowledged) if offset > last]
    assert values(ground.process(), "alice") == expected
    await erase(one, "alice")
    assert set(states(ground, "alice")) == {"destroyed"}  # of all keys that were made at once


async def test_a_batch_is_sealed_for_the_numbers_that_it_gets(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await asyncio.gather(*(append(opened, "alice", f"{n}") for n in range(20) for opened in (one, other)))
    assert sorted(map(str, values(one, "alice"))) == sorted([str(n) for n in range(20)] * 2)


async def test_expected_and_idempotency_keys(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    writer = one.writer("alice")
    made = draft("alice", ["once"])
    first = await writer.write(made, Condition(0, "key-1", made.digest(0)))
    assert isinstance(first, Appended)
    again = await other.writer("alice").write(made, Condition(0, "key-1", made.digest(0)))
    assert again == Appended(first.first, first.last, first.partition, first.offset, True)
    with pytest.raises(WrongExpected):
        await writer.write(made, Condition(5))
    different = draft("alice", ["twice"])
    with pytest.raises(KeyReused):
        await writer.write(different, Condition(0, "key-1", different.digest(0)))
    (record,) = ground.log.read(TOPIC, 0, first.offset, limit=1)
    assert made.digest(0).encode() not in dict(record.headers)[HASH]  # type: ignore[operator]  # a plain hash lets payloads be guessed


async def test_numbers_that_events_bring(ground: CipherGround) -> None:
    one = ground.process()
    await append(one, "alice", Event("a", 3), Event("b", 7))
    assert [(row.seq_nr, row.payload.value()) for row in rows(one, "alice")] == [(3, "a"), (7, "b")]  # type: ignore[union-attr]


async def test_many_new_entities_share_one_step(ground: CipherGround) -> None:
    keys = ground.keys()
    one, calls = ground.process(keys=keys), []
    kept = keys.store.add
    keys.store.add = lambda topic, made: (calls.append(len(made)), kept(topic, made))[1]  # type: ignore[method-assign]
    await asyncio.gather(*(append(one, f"id-{n}", "x") for n in range(100)))
    assert sum(calls) == 100
    assert len(calls) < 10


async def test_a_key_store_that_fails_appends_nothing(ground: CipherGround, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ground.keys()
    one = ground.process(keys=keys)
    with monkeypatch.context() as patch:

        def fail(*given: object) -> None:
            raise OutcomeUnknown("the disk")

        patch.setattr(keys.store, "add", fail)
        with pytest.raises(OutcomeUnknown):
            await append(one, "alice", "x")
    assert one.partition("alice").end() == 0
    await append(one, "alice", "y")
    assert values(ground.process(), "alice") == ["y"]


async def test_two_processes_that_make_a_key_at_once(ground: CipherGround) -> None:
    class Late(EntityKeys):
        """Makes its key after another process has made one, too."""

    keys = Late(ground.keys().store, ground.masters, clock=ground.clock)
    create = keys.create
    other = ground.process()

    def late(topic: str, ids: object, cipher: str = "aes-256-gcm") -> object:
        made = create(topic, ids, cipher)  # type: ignore[arg-type]
        ground.keys().create(topic, ["alice"])
        return made

    keys.create = late  # type: ignore[method-assign, assignment]
    await append(ground.process(keys=keys), "alice", "a")
    await append(other, "alice", "b")
    assert values(ground.process(), "alice") == ["a", "b"]
    await erase(other, "alice")
    assert states(ground, "alice") == ["destroyed", "destroyed"]


async def test_what_is_too_large_fails_alone(ground: CipherGround) -> None:
    one = ground.process()
    large = append(one, "alice", b"x" * ((16 << 20) - 100))
    outcomes = await asyncio.gather(append(one, "bob", "x"), large, append(one, "bob", "y"), return_exceptions=True)
    assert isinstance(outcomes[1], TooLarge)
    assert values(one, "bob") == ["x", "y"]


async def test_a_key_that_another_process_has_destroyed_since_the_last_look_at_the_log_is_not_missed(ground: CipherGround) -> None:
    one, other = ground.process(), ground.process()
    await append(one, "alice", "a")
    await append(other, "alice", "b")
    writer = one.writer("alice")
    sealing = writer._sealing
    assert sealing is not None
    sealing.clear()
    known, looks = one.partition("alice").end(), list[int]()
    await erase(other, "alice")
    caught_up = writer._caught_up

    def late() -> int:  # the first look at the log's end was before the erasure
        looks.append(1)
        return known if len(looks) == 1 else caught_up()

    writer._caught_up = late  # type: ignore[method-assign]
    await append(one, "alice", "anew")
    assert len(looks) > 1
    assert values(other, "alice") == ["anew"]
