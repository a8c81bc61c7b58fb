from __future__ import annotations

import pytest
from tests.unit.journal.ground import TOPIC, Ground

from headwater.journal.cipher_control import CipherControl, Erasure
from headwater.journal.control import ControlLog, PartitionControl, Quarantine, Rebuild, Replay, decision_of, make_control_topic
from headwater.journal.projection_records import ProjectionLog, ProjectionProgress, ProjectionTaken
from headwater.log.record import Record


def quarantine(offset: int, generation: str = "g", partition: int = 0) -> Quarantine:
    return Quarantine(generation=generation, partition=partition, offset=offset, error="bad", why="because", who="me")


def test_decisions_are_folded_by_generation_and_partition(ground: Ground) -> None:
    control = ControlLog(ground.log, TOPIC)
    assert not control.look()
    control.append(quarantine(7))
    control.append(quarantine(3))
    control.append(quarantine(1, partition=1))
    control.append(quarantine(9, generation="old"))
    assert control.look()
    assert control.partition("g", 0) == PartitionControl((3, 7))
    assert control.partition("g", 1) == PartitionControl((1,))
    assert control.partition("old", 0) == PartitionControl((9,))
    assert control.partition("g", 2) == PartitionControl()
    assert not control.look()


def test_a_replay_takes_a_quarantine_back_and_wants_the_copy_made_anew(ground: Ground) -> None:
    control = ControlLog(ground.log, TOPIC)
    control.append(Replay(generation="g", partition=0, offset=7))  # of what was never left out: it says nothing
    control.append(quarantine(7))
    control.look()
    assert control.partition("g", 0) == PartitionControl((7,))
    at = control.append(Replay(generation="g", partition=0, offset=7))
    control.look()
    assert control.partition("g", 0) == PartitionControl((), at)
    at = control.append(Rebuild(generation="g", partition=0))
    control.look()
    assert control.partition("g", 0).remade == at


def test_another_process_reads_the_same(ground: Ground) -> None:
    ControlLog(ground.log, TOPIC).append(quarantine(7))
    other = ControlLog(ground.log, TOPIC)
    assert other.look()
    assert other.partition("g", 0).quarantined == (7,)


def test_records_of_other_kinds_are_passed_over(ground: Ground) -> None:
    make_control_topic(ground.log, TOPIC)
    make_control_topic(ground.log, TOPIC)
    ground.log.append(f"control-{TOPIC}", 0, [Record(b"k", b'{"kind":"position"}'), Record(None, None), Record(b"k", b"{")], part="journal")
    control = ControlLog(ground.log, TOPIC)
    assert not control.look()
    assert decision_of(Record(b"k", b'{"kind":"rebuild","generation":"g","partition":1}')) == Rebuild(generation="g", partition=1)


def test_the_audit_names_who_and_why(ground: Ground) -> None:
    control = ControlLog(ground.log, TOPIC)
    assert list(control.audit()) == []
    control.append(quarantine(7))
    [entry] = control.audit()
    assert entry.decision == quarantine(7)
    assert entry.timestamp == ground.clock.now_ms()


def test_a_control_topic_that_is_deleted_or_created_again_is_read_anew(ground: Ground) -> None:
    control = ControlLog(ground.log, TOPIC)
    control.append(quarantine(7))
    control.look()
    ground.log.delete_topic(control.name, part="journal")
    assert control.look()
    assert control.partition("g", 0) == PartitionControl()
    control.append(quarantine(8))
    control.look()
    assert control.partition("g", 0).quarantined == (8,)


def test_many_records_of_projections_keep_nobody_from_decisions(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read as columns; each reader gets its own, in their order, and knows where it has come to."""
    monkeypatch.setattr("headwater.journal.control._MANY", 20)
    control, projections, cipher = ControlLog(ground.log, TOPIC), ProjectionLog(ground.log, TOPIC), CipherControl(ground.log, TOPIC)
    erased = [Erasure(generation="g", partition=0, id=f"j{number}") for number in range(3)]
    for number in range(3):
        control.append(quarantine(number))
        cipher.append(erased[number])
        ground.log.append(control.name, 0, [Record(None, b"{}")], part="journal")
        taken = ProjectionTaken(name="p", generation="g", partition=0)
        (epoch,) = projections.append([taken])
        place = [ProjectionProgress(name="p", generation="g", partition=0, epoch=epoch, place=f"{number}.{at}") for at in range(50)]
        projections.append(place)
        readers: list[ControlLog | ProjectionLog] = [control, ControlLog(ground.log, TOPIC), projections, ProjectionLog(ground.log, TOPIC)]
        for reader in readers:  # from where it was, and from the beginning
            assert reader.look()
            assert not reader.look()
        assert control.partition("g", 0).quarantined == tuple(range(number + 1))
        assert projections.report("p").partition(0).place == f"{number}.49"
        assert projections.end == ground.log.bounds(control.name, 0).end == cipher_end(cipher)
        assert [one.decision.offset for one in control.audit() if isinstance(one.decision, Quarantine)] == list(range(number + 1))
    again = CipherControl(ground.log, TOPIC)
    assert [erasure for _, erasure in again.look()] == erased
    assert again.look() == []


def cipher_end(cipher: CipherControl) -> int:
    cipher.look()
    return cipher.end
