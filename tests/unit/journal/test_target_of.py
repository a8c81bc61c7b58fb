"""Which connection keeps positions where."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.unit.journal.ground import TOPIC, Ground

from headwater.core.errors import BadInput
from headwater.journal.projection import Projection
from headwater.journal.projection_records import ProjectionLog
from headwater.journal.projection_target import AsyncCalls, TargetUnavailable
from headwater.journal.target_of import target_of


class Mine(sqlite3.Connection):
    """A connection of a user's own class."""


def keeps(ground: Ground, connect: Any) -> str:
    target = target_of(Projection("bank", "p", print, connect=connect), ProjectionLog(ground.log, TOPIC), AsyncCalls())
    target.close()
    return target.keeps


def test_kinds(ground: Ground, tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")

    async def later() -> Any:
        return apsw.Connection(path)

    assert keeps(ground, None) == "records"
    assert keeps(ground, lambda: sqlite3.connect(path, factory=Mine)) == "sqlite"
    assert keeps(ground, later) == "sqlite"


def test_what_is_no_connection(ground: Ground) -> None:
    for other in (object(), None, "x.db", sqlite3.connect(":memory:").cursor()):
        with pytest.raises(BadInput, match="no position can be kept"):
            keeps(ground, lambda other=other: other)

    def refuses() -> Any:
        raise OSError("no route")

    with pytest.raises(TargetUnavailable, match="OSError: no route"):
        keeps(ground, refuses)
