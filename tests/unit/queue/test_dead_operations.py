"""The operations on the dead list stand in the table of the part."""

from __future__ import annotations

from headwater.queue import dead_operations
from headwater.queue.operations import QUEUE
from headwater.wire.operation import Operation


def test_every_operation_on_dead_rows_is_offered_and_says_how_it_fails() -> None:
    made = [one for one in vars(dead_operations).values() if isinstance(one, Operation)]
    assert len(made) == 6
    for operation in made:
        assert operation in QUEUE.operations
        assert set(dead_operations.OWNS) <= set(operation.errors)
