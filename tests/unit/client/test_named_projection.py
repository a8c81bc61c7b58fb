"""A projection by its name, over a directory and over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.client.journal_ground import journal_backend
from tests.unit.journal.projection_ground import GivenShares

from headwater.client.journals import Journals
from headwater.client.projection_runner import load_projection, run_projection
from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, NotFound, Stopped, UnknownJournal
from headwater.journal.projection import Projection
from headwater.journal.projection_run import ProjectionRun

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["directory", "http"])
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Journals, ProjectionRun, list[int]]]:
    async with journal_backend(tmp_path / "data", request.param, SystemClock()) as (backend, log):
        journals = Journals(backend)
        bank = await journals("bank", create=True)
        await bank["a"].append(1, 2, 3)
        fails = [1]

        def handle(event: object) -> None:
            if fails:
                raise ValueError("no")

        opened, topic = await log.open(), await log.topic("journal-bank")
        projection = Projection("bank", "p", handle, on_error="park", attempts=1)
        yield journals, ProjectionRun(projection, opened, topic, store=lambda: None, shares=lambda topic: GivenShares([0, 1])), fails  # type: ignore[arg-type, return-value]


async def test_looking_and_deciding(run: tuple[Journals, ProjectionRun, list[int]]) -> None:
    journals, running, fails = run
    bank = journals("bank")
    projection = bank.projection("p")
    with pytest.raises(NotFound):
        await projection.status()
    assert list(await bank.projections()) == []
    running.run(once=True)
    assert [one.name for one in await bank.projections()] == ["p"]
    first, *rest = await projection.dead()
    assert (first.number, first.state, [one.state for one in rest]) == (1, "failed", ["waits", "waits"])
    place = (first.partition, first.offset, first.number)
    shown = await projection.dead_show(*place)
    assert shown.event is not None
    assert shown.event["payload"] == 1
    assert (await projection.dead_drop(*place, dry_run=True)).dry_run
    await projection.dead_drop(*place, why="test")
    fails.clear()
    running.run(once=True)
    assert (await projection.status()).dead == 0
    assert (await projection.reset(dry_run=True)).records == 1
    await projection.reset(why="test")
    assert (await projection.status()).resets
    running.run(once=True)
    assert not (await projection.status()).resets
    with pytest.raises(NotFound):
        await projection.dead_retry(*place)
    for wrong in ((-1, 0, 1), (0, -1, 1), (0, 0, 0)):
        with pytest.raises(BadInput):
            await projection.dead_show(*wrong)
    with pytest.raises(BadInput):
        bank.projection("a/b")
    with pytest.raises(UnknownJournal):
        await journals("bnak").projections()


async def test_running_by_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projection = Projection("bank", "p", lambda event: 1 / 0)
    with pytest.raises(NotFound, match="no data directory"):
        run_projection(projection, tmp_path / "none")
    async with journal_backend(tmp_path / "data", "directory", SystemClock()) as (backend, _):
        bank = await Journals(backend)("bank", create=True)
        await bank["a"].append(1)
        with pytest.raises(UnknownJournal):
            run_projection(Projection("bnak", "p", print), tmp_path / "data")
        with pytest.raises(BadInput, match="is no projection"):
            run_projection("p", tmp_path / "data")  # type: ignore[arg-type]
        with pytest.raises(Stopped, match="ZeroDivisionError"):
            run_projection(projection, tmp_path / "data", once=True)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_projection_of_a_test.py").write_text("import headwater\nclass In: p = headwater.Projection('bank', 'p', print)\n")
    assert load_projection("a_projection_of_a_test:In.p").name == "p"
    for wrong in ("x", ":x", "x:", "a_projection_of_a_test:In", "a_projection_of_a_test:In.q", "no_such_module:p"):
        with pytest.raises(BadInput):
            load_projection(wrong)
