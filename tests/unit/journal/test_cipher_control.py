"""The control topic's records about encryption."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.journal.cipher_control import CipherControl, CipherOn, Erasure
from headwater.journal.control import ControlLog, Quarantine
from headwater.journal.topics import PART
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

TOPIC = "journal-bank"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        yield log


def test_decisions_are_read_on_and_other_kinds_are_passed_over(log: EmbeddedLog) -> None:
    control = CipherControl(log, TOPIC)
    assert control.look() == []
    assert control.on is None
    on = CipherOn(generation="g", cipher="aes-256-gcm", store="s", who="me", why="law")
    erasure = Erasure(generation="g", partition=1, id="alice", offset=7, keys=("ab" * 16,), who="me", why="asked")
    assert control.append(on) == 0
    decisions = ControlLog(log, TOPIC)
    decisions.append(Quarantine(generation="g", partition=0, offset=3))
    log.append(control.name, 0, [Record(b"0", b"\xffno json"), Record(b"0", None)], part=PART)
    control.append(erasure)
    assert control.look() == [(4, erasure)]
    assert control.on == on
    assert control.look() == []
    assert decisions.look()
    assert decisions.partition("g", 0).quarantined == (3,)  # those of the copies pass over ours, too
    assert erasure.key_ids() == [b"\xab" * 16]


def test_ids_that_are_none_are_left_out() -> None:
    assert Erasure(generation="g", partition=0, id="a", keys=("zz", "ab", "AB" * 16, "é" * 32)).key_ids() == []


def test_a_control_topic_that_was_created_anew_is_read_from_its_beginning(log: EmbeddedLog) -> None:
    control = CipherControl(log, TOPIC)
    for number in range(3):
        control.append(Erasure(generation="g", partition=0, id=str(number)))
    assert len(control.look()) == 3
    log.delete_topic(control.name, part=PART)
    assert control.look() == []
    control.append(Erasure(generation="g", partition=0, id="new"))
    assert [erasure.id for _, erasure in control.look()] == ["new"]


def test_a_control_topic_that_was_restored_and_is_shorter_is_read_again(log: EmbeddedLog) -> None:
    control = CipherControl(log, TOPIC)
    control.append(Erasure(generation="g", partition=0, id="kept"))
    control.look()
    control.end = 100
    assert [erasure.id for _, erasure in control.look()] == ["kept"]
