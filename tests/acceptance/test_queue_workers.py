"""Worker processes of queues, by command and over HTTP: each row once; and what holds when workers and servers are killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest
from forked_program import ForkedProgram
from free_port import free_port
from program import Program

import headwater
from headwater.core.errors import StaleClaim
from headwater.queue.settings import QueueSettings
from headwater.server.spawned import SpawnedServer


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Program:
    shutil.copy(Path(__file__).with_name("queue_functions.py"), tmp_path)
    return Program(tmp_path, forked_program)


def filled(home: Program, rows: int, *settings: str) -> None:
    assert home("queue", "create", "pages", *settings).code == 0
    lines = "".join(f'{{"key": "k{number}"}}\n' for number in range(rows))
    assert home("queue", "put", "pages", stdin=lines).code == 0


def runs(home: Program) -> list[tuple[str, str]]:
    """Who ran which key, in order."""
    file = home.home / "ran.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(who, key) for who, _, key in (line.partition(" ") for line in lines)]


def until(holds: Callable[[], Any], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    never = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it never holds"
        never.wait(0.02)


@pytest.mark.parametrize("through", ["server", "nothing"])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_row_runs_once(home: Program, processes: int, through: str) -> None:
    rows = 10_000 if processes == 4 and through == "server" else 1000
    filled(home, rows)
    with SpawnedServer(home.data) if through == "server" else nullcontext():
        function = "queue_functions:note_async" if processes == 4 else "queue_functions:note"
        ran = home("queue", "work", "pages", function, "--processes", str(processes), "--drain", "--json")
        assert ran.code == 0, ran.err
        assert ran.json == {"done": rows, "failed": 0, "given_up": 0, "released": 0, "lost": 0, "unknown": 0, "abandoned": 0}
        assert sum(home("queue", "count", "pages", "--json").json.values()) == 0
    keys = Counter(key for _, key in runs(home))
    assert keys == Counter(f"k{number}" for number in range(rows))
    assert len({who for who, _ in runs(home)}) <= processes


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_workers_lose_nothing_and_no_row_runs_twice_at_once(home: Program, seed: int) -> None:
    filled(home, 300, "--lease", "1s", "--set", "max_timeouts=50")
    with SpawnedServer(home.data):
        command = ("queue", "work", "pages", "queue_functions:alone", "--processes", "4", "--concurrency", "2", "--drain", "--json")
        crew = home.start(*command)
        random, ran = Random(seed), 0
        for _ in range(6):  # kill any of them at any moment
            ran += random.randrange(5, 50)
            until(lambda ran=ran: len(runs(home)) >= ran or crew.poll() is not None)  # type: ignore[misc]
            workers = [pid for pid in sorted({int(who) for who, _ in runs(home) if who != "twice"}) if _is_worker(pid)]
            if workers and crew.poll() is None:
                os.kill(random.choice(workers), signal.SIGKILL)
        _out, err = crew.communicate(timeout=120)
        assert crew.returncode == 0, err
        until(lambda: _drained(home), 30)
    assert [key for who, key in runs(home) if who == "twice"] == []
    assert {key for _, key in runs(home)} == {f"k{number}" for number in range(300)}


def _is_worker(pid: int) -> bool:
    try:
        return b"queue_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is gone
        return False


def _drained(home: Program) -> bool:
    """Run what the killed ones have left: their leases end first."""
    home("queue", "work", "pages", "queue_functions:alone", "--drain")
    return sum(home("queue", "count", "pages", "--json").json.values()) == 0


def test_sigterm_lets_rows_end_and_gives_the_others_back(home: Program) -> None:
    filled(home, 4)
    crew = home.start(
        "queue", "work", "pages", "queue_functions:hangs", "--processes", "2", "--concurrency", "1", "--grace", "60s", "--json"
    )
    until(lambda: len(runs(home)) == 2)
    crew.send_signal(signal.SIGTERM)
    (home.home / "go").touch()
    out, err = crew.communicate(timeout=240)
    assert crew.returncode == 0, err
    assert '"done": 2' in out
    assert home("queue", "count", "pages", "--json").json["due"] == 2


def test_a_function_that_hangs_does_not_keep_a_worker_beyond_its_grace(home: Program) -> None:
    filled(home, 2)
    worker = home.start("queue", "work", "pages", "queue_functions:hangs", "--concurrency", "1", "--grace", "100ms")
    until(lambda: len(runs(home)) == 1)
    worker.send_signal(signal.SIGTERM)
    _, err = worker.communicate(timeout=240)
    assert worker.returncode == 0, err
    assert home("queue", "count", "pages", "--json").json["processing"] == 1, "it may still run: its lease is not over"


@pytest.mark.parametrize(("processes", "number", "code"), [(1, signal.SIGTERM, 143), (1, signal.SIGINT, 130), (2, signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_worker_whose_functions_do_not(home: Program, processes: int, number: signal.Signals, code: int) -> None:
    filled(home, 2)
    crew = home.start(
        "queue", "work", "pages", "queue_functions:hangs", "--processes", str(processes), "--concurrency", "1", "--grace", "1h"
    )
    until(lambda: len(runs(home)) == processes)
    crew.send_signal(number)
    assert crew.stderr is not None
    while "Stopping: rows that run have 1h to end." not in (line := crew.stderr.readline()):
        assert line, "it ended with the first signal"
    crew.send_signal(number)
    out, err = crew.communicate(timeout=240)
    assert crew.returncode == code, err
    assert "0 rows done, 0 failed, 0 given up, 0 released." in out
    if processes == 1:
        assert "1 row still ran in threads" in err
    assert home("queue", "count", "pages", "--json").json["processing"] == processes, "their leases are not over"


def test_failures_are_a_line_each_and_with_verbose_every_row(home: Program) -> None:
    filled(home, 2)
    quiet = home("queue", "work", "pages", "queue_functions:fails", "--drain", "--concurrency", "1")
    assert (quiet.code, quiet.err.count("has failed, attempt 1, again in"), "Traceback" in quiet.err) == (0, 2, False)
    assert "ValueError: no page k0" in quiet.err
    assert home("queue", "put", "pages", "more").code == 0
    told = home("queue", "work", "pages", "queue_functions:note", "--drain", "--verbose")
    assert ("more begins, attempt 1." in told.err, "more is done in" in told.err) == (True, True)


@pytest.mark.parametrize("ends", [False, True], ids=["rows-run", "rows-end"])
def test_the_workers_of_a_killed_owner_end(home: Program, ends: bool) -> None:
    filled(home, 2)
    crew = home.start("queue", "work", "pages", "queue_functions:hangs", "--processes", "2", "--concurrency", "1", "--grace", "1s")
    until(lambda: len(runs(home)) == 2)
    crew.kill()
    crew.communicate(timeout=240)
    if ends:
        (home.home / "go").touch()  # nobody is there who could be told
    until(lambda: not any(Path(f"/proc/{who}").exists() for who, _ in runs(home)))
    assert home("queue", "count", "pages", "--json").json["processing"] == 2, "their leases are not over"


def test_everything_acknowledged_holds_after_the_server_was_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = SpawnedServer(data)
    server.start()
    with headwater.open_blocking(server.url) as hw:
        pages = hw.queue("pages", create=QueueSettings(lease="60s")).open()
        pages.put_many([(key, 1) for key in ("put", "claimed", "extended", "done", "failed", "dead")])
        claims = {claim.key: claim for claim in pages.claim(6, wait="0s")}
        claims["put"].release()
        claims["extended"].extend("5m")
        claims["done"].done()
        claims["failed"].fail("no", retry_after="1h")
        claims["dead"].fail("never", give_up=True)
        pages.put("claimed", 2)
        before = {row.id: row.shown() for row in pages.rows()}
    server.kill()
    with SpawnedServer(data) as again, headwater.open_blocking(again.url) as hw:
        pages = hw.queue("pages").open()
        assert {row.id: repr(row.shown()).partition("Raw object at")[0] for row in pages.rows()} == {
            id: repr(row).partition("Raw object at")[0] for id, row in before.items()
        }
        assert [row.error for row in pages.dead()] == ["never"]
        assert pages.get("failed").failures == 1
        assert pages.get("extended").status == "P"
        assert pages.get("claimed").status == "P"
        assert pages.done(claims["claimed"].token, claims["extended"].token) == [], "tokens count across a restart"
        with pytest.raises(StaleClaim):
            pages.fail(claims["done"].token, "late")
        assert {claim.key: claim.data for claim in pages.claim(5, wait="0s")} == {"put": 1, "claimed": 2}


def test_a_worker_outlives_a_restart_of_the_server(home: Program) -> None:
    filled(home, 50, "--lease", "30s")
    port = str(free_port())
    server = SpawnedServer(home.data, options=("--port", port))
    server.start()
    worker: subprocess.Popen[str] = home.start(
        "queue", "work", "pages", "queue_functions:alone", "--concurrency", "2", "--server", server.url, "--json"
    )
    until(lambda: len(runs(home)) >= 10)
    server.kill()
    with SpawnedServer(home.data, options=("--port", port)):
        until(lambda: sum(home("queue", "count", "pages", "--json").json.values()) == 0)
        worker.send_signal(signal.SIGTERM)
        _out, err = worker.communicate(timeout=240)
        assert worker.returncode == 0, err
    assert {key for _, key in runs(home)} == {f"k{number}" for number in range(50)}
    assert [key for who, key in runs(home) if who == "twice"] == []
