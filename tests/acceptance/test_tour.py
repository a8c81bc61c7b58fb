"""The tour is an acceptance test that users can watch; here it is run, broken, stopped, and its commands are typed."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked_program import ForkedProgram
from program import Ran

import headwater
from headwater.client.document_resource import Resource
from headwater.client.documents import Documents
from headwater.client.journals import TopicJournals
from headwater.client.presence import serving
from headwater.client.wal import OneRegion
from headwater.core.errors import Differs
from headwater.core.settings import Settings
from headwater.documents.answers import HyperStorageTransactionCreated
from headwater.documents.care_answers import VerifiedDocuments
from headwater.journal.care_requests import VerifiedCopy
from headwater.log.record import Record
from headwater.server.spawned import SpawnedServer
from headwater.server.tour import queue_chapter
from headwater.server.tour.document_chapter import document_chapter
from headwater.server.tour.journal_chapter import journal_chapter
from headwater.server.tour.report import TourReport
from headwater.server.tour.wal_chapter import wal_chapter
from headwater.wal.answers import TableMoved

CALM = {**os.environ, "HEADWATER_SPARK__START": "never"}


@pytest.fixture(scope="session")
def demo(forked_program: ForkedProgram) -> Callable[..., Ran]:
    return lambda *words: forked_program("demo", *words, home=Path.cwd(), env=CALM, timeout=300)


def eventually(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for something that another process does."""
    pause = threading.Event()
    for _ in range(int(seconds * 20)):
        if condition():
            return
        pause.wait(0.05)
    pytest.fail(f"{what} did not happen")


def printed_commands(output: str) -> list[str]:
    return [line.strip() for line in output.partition("Try next:\n")[2].splitlines() if line.startswith("  ")]


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory, demo: Callable[..., Ran]) -> tuple[Path, str]:
    data = tmp_path_factory.mktemp("tour") / "data"
    ended = demo("--data", str(data))
    assert ended.code == 0, ended.out + ended.err
    return data, ended.out


def test_every_claim_holds(toured: tuple[Path, str]) -> None:
    _, output = toured
    claims = re.findall(r": (yes|NO)$", output, re.MULTILINE)
    assert len(claims) >= 5
    assert set(claims) == {"yes"}
    assert "Everything held." in output
    for part in ("appends", "kill -9", "batches", "check", "spark", "pipeline", "wal", "queue", "journal", "documents"):
        assert re.search(rf"^  {part}\b", output, re.MULTILINE), part


def test_what_it_says_can_be_counted(toured: tuple[Path, str]) -> None:
    data, output = toured
    said = re.search(r"synced: ([\d,]+) records", output)
    assert said
    with headwater.open_blocking(data) as hw:
        assert hw.log.bounds("demo-appends", 0).end == int(said[1].replace(",", ""))
        assert hw.log.bounds("demo-volume", 0).end == 500_000
    assert not (data / "demo-floor").exists()
    assert serving(data / "demo-second") is None


def test_without_a_server_its_commands_work_as_printed(toured: tuple[Path, str]) -> None:
    _, output = toured
    commands = printed_commands(output)
    assert len(commands) == 5
    for command in commands:
        if " serve " not in command and " doctor " not in command:
            ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
            assert ended.returncode == 0, (command, ended.stderr)
            assert ended.stdout


def test_a_claim_that_does_not_hold_fails_the_tour(toured: tuple[Path, str], demo: Callable[..., Ran]) -> None:
    data, _ = toured
    (segment,) = (data / "log" / "demo-volume" / "0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    try:
        ended = demo("--data", str(data))
    finally:
        with segment.open("r+b") as file:
            file.seek(1_000_000)
            file.write(byte)
    assert ended.code == 8
    assert "every checksum is right, and none is missing: NO" in ended.out
    assert "THE TOUR FAILED" in ended.out
    assert "did not hold" in ended.err


def test_a_region_that_is_not_freed_and_payloads_that_are_missing_fail_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unmoved(region: OneRegion, table: int) -> TableMoved:
        return TableMoved(table=table, entries=50)

    monkeypatch.setattr(OneRegion, "move", unmoved)
    monkeypatch.setattr("headwater.server.tour.wal_load.payload", lambda table, sequence: b"something else")
    told = TourReport(io.StringIO())
    wal_chapter(None, Settings(data=tmp_path), told)  # type: ignore[arg-type]  # it has a log of its own
    assert [claim.partition(":")[0].partition(",")[0] for claim in told.false] == ["moved and cleaned", "nothing acknowledged is missing"]


def test_rows_that_workers_leave_behind_do_not_fail_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers end when no row is due: a row is left where a claim took longer than its lease, beside that of the killed one."""
    run, early = queue_chapter.run_workers, iter([True])

    def late(folder: Path) -> None:
        if next(early, False):
            with headwater.open_blocking(folder) as hw:
                assert len(hw.queue(queue_chapter.QUEUE).claim(1, wait="0s")) == 1
        else:
            run(folder)

    monkeypatch.setattr(queue_chapter, "run_workers", late)
    told = TourReport(out := io.StringIO())
    queue_chapter.queue_chapter(None, Settings(data=tmp_path), told)  # type: ignore[arg-type]  # it has a log of its own
    assert told.false == [], out.getvalue()


def test_events_that_are_missing_and_a_copy_that_differs_fail_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def differs(journals: TopicJournals) -> VerifiedCopy:
        raise Differs("event 3 is another one")

    monkeypatch.setattr(TopicJournals, "verify", differs)
    monkeypatch.setattr("headwater.server.tour.journal_load.deposit", lambda number: {"eur": -number})
    told = TourReport(io.StringIO())
    journal_chapter(None, Settings(data=tmp_path), told)  # type: ignore[arg-type]  # it has a log of its own
    assert [claim[:20] for claim in told.false] == ["all of them are read", "verify: equal (event", "read through the cop"]


def test_a_lost_lock_and_a_store_that_differs_fail_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unlocked(resource: Resource, item: Any, **more: Any) -> HyperStorageTransactionCreated:
        return await Resource.put(resource, {"id": "hat", "name": "hat", **item})

    async def differs(documents: Documents) -> VerifiedDocuments:
        raise Differs("item hat is another one")

    monkeypatch.setattr(Resource, "patch", unlocked)
    monkeypatch.setattr(Documents, "verify", differs)
    told = TourReport(io.StringIO())
    document_chapter(None, Settings(data=tmp_path), told)  # type: ignore[arg-type]  # it has a log of its own
    assert [claim[:20] for claim in told.false] == ["PUT makes revision 1", "verify: equal (item "]


def test_cleaning_up_removes_the_tours_things_and_nothing_else(tmp_path: Path, demo: Callable[..., Ran]) -> None:
    with headwater.open_blocking(tmp_path) as hw:
        for name in ("demo-appends", "demo-else", "mine", "my-demo-"):
            hw.log.create_topic(name)
        hw.log.append("mine", 0, [Record(None, b"kept")])
        hw.wal("demo-mine").create(1)
    for folder in ("demo-second", "demo-wal", "demo-queue", "demo-journal", "demo-documents"):
        (tmp_path / folder).mkdir()
    ended = demo("clean", "--data", str(tmp_path))
    assert ended.code == 0, ended.err
    assert "demo-appends" in ended.out
    with headwater.open_blocking(tmp_path) as hw:
        assert [topic.name for topic in hw.log.topics()] == ["demo-mine_data_1", "demo-mine_meta_1", "mine", "my-demo-"]
        assert hw.log.bounds("mine", 0).end == 1
    assert not (tmp_path / "demo-second").exists()
    assert not (tmp_path / "demo-wal").exists()
    assert not (tmp_path / "demo-queue").exists()
    assert not (tmp_path / "demo-journal").exists()
    assert not (tmp_path / "demo-documents").exists()
    assert "nothing of a tour" in demo("clean", "--data", str(tmp_path)).out


@pytest.mark.parametrize("moment", ["The tour,", "kill -9"])
def test_a_server_that_is_stopped_during_its_tour_stops_cleanly(tmp_path: Path, moment: str) -> None:
    with SpawnedServer(tmp_path, options=("--port", "0", "--demo"), environ=CALM) as server:
        eventually(lambda: moment in server.output(), f"{moment!r}")
        server.signal(signal.SIGINT)
        assert server.wait(240) == 0
    assert server.output().endswith("everything acknowledged is on disk\n")
    assert "Traceback" not in server.errors()
    eventually(lambda: serving(tmp_path / "demo-second") is None, "the end of the second server")
    with headwater.open_blocking(tmp_path) as hw:
        assert hw.address is None


@pytest.mark.spark
def test_the_whole_tour_beside_its_server(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("operator " + "o" * 24)
    tokens.chmod(0o600)
    data = tmp_path / "data"
    with SpawnedServer(data, options=("--port", "0", "--demo", "--token-file", str(tokens))) as server:
        eventually(lambda: "Try next:" in server.output() or "FAILED" in server.output(), "the tour's end", seconds=240)
        eventually(lambda: len(printed_commands(server.output())) == 5, "the printed commands")
        output = server.output()
        assert ": NO" not in output
        assert re.search(r"demo-volume counted in \d+ ranges: 500,000 records", output)
        assert "o" * 24 not in output
        for command in printed_commands(output):
            environ = {**os.environ, "HEADWATER_TOKEN": "o" * 24}
            ended = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, env=environ)
            assert ended.returncode == 0, (command, ended.stderr)
            assert ended.stdout
            assert "problem" not in ended.stdout
            assert '"code"' not in ended.stdout, ended.stdout
        assert server.stop() == 0
