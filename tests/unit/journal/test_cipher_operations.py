"""The operations on keys: what they ask."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.journal.cipher_operations import CIPHER, EraseJournal, RotateKeys
from headwater.wire.operation import Role


def test_only_operators_erase_and_rotate() -> None:
    assert [(operation.name, operation.role, operation.changes) for operation in CIPHER] == [
        ("erase", Role.OPERATOR, True),
        ("rotate", Role.OPERATOR, True),
    ]


def test_a_request_names_a_journal() -> None:
    EraseJournal(topic="bank", id="alice", why="asked").check()
    RotateKeys(topic="bank").check()
    for id, why in (("", "asked"), ("alice", ""), ("alice", " \n")):
        with pytest.raises(BadInput):
            EraseJournal(topic="bank", id=id, why=why).check()
