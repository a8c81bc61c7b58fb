"""The operations on projections belong to the part, and say who may do them."""

from __future__ import annotations

from headwater.journal.operations import JOURNAL
from headwater.journal.projection_operations import PROJECTION_OPERATIONS
from headwater.wire.operation import Role


def test_they_are_of_the_part() -> None:
    assert set(PROJECTION_OPERATIONS) <= set(JOURNAL.operations)
    assert all(operation.path.startswith("/projections/{topic}") for operation in PROJECTION_OPERATIONS)


def test_readers_look_and_operators_change() -> None:
    for operation in PROJECTION_OPERATIONS:
        assert operation.role == (Role.OPERATOR if operation.changes else Role.READER)
        assert not operation.changes or "dry_run" in operation.request.__struct_fields__
