"""A queue that carries its rows forward all the time, while leases end, rows expire and periods are over, on a disk that fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults import test_queue_fail_nth as ground
from tests.faults.test_queue_fail_nth import EVERY, LARGE_ROWS, Expected, checked, lived, made

from headwater.core.period import Period
from headwater.core.units import Duration, Size
from headwater.queue import carry
from headwater.queue.decisions import Decisions
from headwater.queue.effective_settings import EffectiveSettings
from headwater.testing.faults import FailingFiles

STEPS = 40
LIVES = 5  # of each test, where not every call is to fail
AROUND = 4  # calls from the one before a carry's record on
SETTINGS = EffectiveSettings(memory=Size(0), period=Period("hour"), lease=Duration(60_000), results=Duration(86_400_000))


class Carried:
    """What was carried, and at which call of the files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files, self.calls, self.rows, self.changes = FailingFiles(), list[int](), 0, dict[str, int]()
        for name in ("carry", "carry_finished", "advance"):
            monkeypatch.setattr(Decisions, name, self._counted(name, getattr(Decisions, name)))

    def _counted(self, name: str, made: Any) -> Any:
        def counted(decisions: Decisions, *given: Any, **named: Any) -> Any:
            self.calls.append(self.files.calls)
            self.changes[name] = self.changes.get(name, 0) + 1
            self.rows += len(list(named.get("slots", ())))
            return made(decisions, *given, **named)

        return counted

    def around(self) -> Iterator[int]:
        """The numbers of the calls around these."""
        yield from sorted({call + more for call in self.calls for more in range(AROUND)})


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Carry rows forward whenever one can be."""
    monkeypatch.setattr(carry, "SPARE_RECORDS", -10)
    monkeypatch.setattr(ground, "SETTINGS", SETTINGS)


@pytest.mark.parametrize("seed", [11, 13])
@LARGE_ROWS
def test_one_failing_call_around_a_carry_or_a_date_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, large: int
) -> None:
    carried = Carried(monkeypatch)
    for life in range(5):  # a carry goes on beside the work: how many of them end before it depends on the disk
        asyncio.run(lived(made(tmp_path / f"whole {life}"), carried.files, Expected(), seed, large, steps=STEPS, timed=True))
        if "carry_finished" in carried.changes:
            break
    assert carried.changes["carry"] > 10
    assert carried.rows > 10
    assert carried.changes["advance"] > 2
    assert carried.changes["carry_finished"] > 0
    around = list(carried.around())
    assert len(around) > 40
    for at in around if EVERY == 1 else around[seed % 8 :: len(around) // LIVES]:
        data, expected = made(tmp_path / f"{at}"), Expected()
        number = errno.EIO if at % 2 else errno.ENOSPC
        asyncio.run(lived(data, FailingFiles(at, number=number), expected, seed, large, steps=STEPS, timed=True))
        asyncio.run(checked(data, expected, large))
