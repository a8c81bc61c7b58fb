"""What cannot be asked of projections."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.journal.projection_requests import DeadEventPlace, DecideDeadEvent, ProjectionRequest, ResetProjection


def test_what_can_be_asked() -> None:
    ProjectionRequest(topic="bank", name="x").check()
    ResetProjection(topic="bank", name="x", why="y").check()
    DecideDeadEvent(topic="bank", name="x", partition=0, offset=0, number=1).check()


@pytest.mark.parametrize("wrong", [{"name": "a/b"}, {"partition": -1}, {"offset": -1}, {"number": 0}, {"number": True}, {"offset": "1"}])
def test_what_cannot(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        DeadEventPlace(**{"topic": "bank", "name": "x", "partition": 0, "offset": 0, "number": 1, **wrong}).check()  # type: ignore[arg-type]
