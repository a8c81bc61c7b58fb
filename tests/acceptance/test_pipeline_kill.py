"""Runs that are stopped and killed: what the next run makes of it. Nothing lost, nothing twice, positions never ahead of the sink."""

from __future__ import annotations

import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from forked_program import ForkedProgram
from pipeline_home import KILLED, SHOP, Home, ended, followed, wait_until

MANY = 3000

# The adaptors are the real ones; only the moment of death is added. It is written down first, so that the next run lives.
DYING = """
import os
import signal
from pathlib import Path

from headwater.pipeline import Pipeline, python
from headwater.adaptors.file.adaptor import File
from headwater.adaptors.sqlite.adaptor import Sqlite
from headwater.pipeline.adaptors import file

WHEN = "{when}"


def die(moment):
    if moment == WHEN and not Path("died").exists():
        Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def at_message(message):
    if message.data["_id"] == 1234:
        die("in a transform")
    return message


class Dying:
    def begin(self, pipeline, sink, epoch):
        found = super().begin(pipeline, sink, epoch)
        die("after begin")
        return found

    def writer(self, part):
        die("before writing")
        made = super().writer(part)
        write = made.write

        def written(batch):
            write(batch)
            die("after writing")

        made.write = written
        return made

    def publish(self, part, receipt):
        die("before publishing")
        super().publish(part, receipt)
        die("after publishing")


class DyingFile(Dying, File, frozen=True, kw_only=True):
    pass


class DyingSqlite(Dying, Sqlite, frozen=True, kw_only=True):
    pass


class DyingSource(File, frozen=True, kw_only=True):
    def read(self, part, position):
        for piece in super().read(part, position):
            yield piece
            die("after reading a piece")


p = Pipeline("shop", flush="10ms")
rows = p.source("orders", DyingSource(uri="orders.jsonl"))
rows.transform(python(at_message, keeps_id=True)).save("sink", {sink})
"""

SINKS = {
    "folder": 'DyingFile(uri="out/", format="jsonl")',
    "single": 'DyingFile(uri="out.jsonl")',
    "sqlite": 'DyingSqlite(path="out.db", table="orders")',
}
MOMENTS = [
    ("folder", "after reading a piece"),
    ("folder", "after begin"),
    ("folder", "after writing"),
    ("folder", "before publishing"),
    ("folder", "after publishing"),
    ("single", "in a transform"),
    ("single", "before publishing"),
    ("single", "after publishing"),
    ("sqlite", "before writing"),
    ("sqlite", "in a transform"),
    ("sqlite", "after writing"),  # committed, and not yet acknowledged
]


@pytest.fixture
def home(tmp_path: Path, forked_program: ForkedProgram) -> Home:
    made = Home(tmp_path, forked_program)
    made.documents(MANY)
    return made


def taken(home: Home, sink: str) -> list[int]:
    if sink == "sqlite":
        return [row[0] for row in home.rows("select _id from orders order by _id", "out.db")]
    return home.ids("out" if sink == "folder" else "out.jsonl")


@pytest.mark.parametrize(("sink", "when"), MOMENTS)
def test_killed_at_any_moment_the_next_run_completes_it(home: Home, sink: str, when: str) -> None:
    home.write("shop.py", DYING.replace("{when}", when).replace("{sink}", SINKS[sink]))
    assert home.pipeline("run", "shop.py").code == KILLED
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 0, ran.err
    assert taken(home, sink) == list(range(MANY))
    [place] = home.pipeline("offset", "shop", "list", "--json").json
    assert (place["lag"], place["error"]) == (0, None)


def test_after_a_kill_the_operator_sees_a_dead_run_and_can_step(home: Home) -> None:
    home.write("shop.py", DYING.replace("{when}", "before writing").replace("{sink}", SINKS["folder"]))
    assert home.pipeline("run", "shop.py").code == KILLED
    assert home.pipeline("status", "shop", "--json").json["state"] == "died"
    assert home.pipeline("stop", "shop").code == 4
    assert home.pipeline("step", "shop", "sink", "--count", "2").out.splitlines()[-1] == "sink has taken message 1."
    assert home.pipeline("run", "shop.py").code == 0
    assert home.pipeline("status", "shop", "--json").json["state"] == "done"
    assert taken(home, "folder") == list(range(MANY))


SLOW = """
import time
from pathlib import Path

from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file, sqlite


def slowly(message):
    if message.data["_id"] == 1500:
        Path("there").touch()
        deadline = time.monotonic() + 60
        while not Path("go").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
    return message


p = Pipeline("shop")
rows = p.source("orders", file("orders.jsonl"))
rows.save("archive", file("archive/", format="jsonl"))
rows.transform(python(slowly, keeps_id=True)).save("report", sqlite("report.db", table="orders"))
"""


def test_sigterm_finishes_what_is_under_way_and_the_next_run_goes_on(home: Home) -> None:
    home.write("shop.py", SLOW)
    running = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, running)
    running.send_signal(signal.SIGTERM)
    (home.home / "go").touch()
    ran = ended(running)
    assert ran.code == 0, ran.err
    assert home.positions()["report"] >= 1500
    assert_whole(home)


def test_a_sink_that_does_not_finish_is_left_behind_when_the_grace_is_over(home: Home) -> None:
    home.write("shop.py", SLOW.replace('Pipeline("shop")', 'Pipeline("shop", stop_grace="50ms")'))
    running = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, running)
    ran = ended(running, by=[signal.SIGTERM])
    assert ran.code == 0, ran.err
    assert "Stopped; 3,000 read." in ran.err
    assert home.positions()["report"] == -1
    (home.home / "go").touch()
    assert_whole(home)


def assert_whole(home: Home) -> None:
    """After one more run nothing is lost and nothing is there twice."""
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 0, ran.err
    assert home.ids("archive") == list(range(MANY))
    assert home.rows("select count(*), count(distinct _id) from orders") == [(MANY, MANY)]
    assert home.positions() == {"archive": MANY, "report": MANY}


def test_the_second_interrupt_ends_it_at_once(home: Home) -> None:
    home.write("shop.py", SLOW)
    running = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, running)
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGINT)
    # Two signals that come at one moment are one: the third is the second then.

    def gone() -> bool:
        running.send_signal(signal.SIGINT)
        return running.poll() is not None

    wait_until(gone)
    assert running.returncode == 130
    ended(running)
    (home.home / "go").touch()
    assert_whole(home)


def test_stop_asks_a_live_run_to_end(home: Home) -> None:
    home.write("shop.py", SLOW.replace('Pipeline("shop")', 'Pipeline("shop", stop_grace="50ms")'))
    running = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, running)
    assert home.pipeline("stop", "shop", "--dry-run").code == 0
    assert running.poll() is None
    assert home.pipeline("stop", "shop", "--why", "the night").code == 0
    ran = ended(running)
    assert ran.code == 0, ran.err
    assert "Stopped; 3,000 read." in ran.err
    assert home.pipeline("stop", "shop").code == 4  # nothing runs
    assert [one["what"] for one in home.pipeline("audit", "shop", "--json").json] == ["stop"]


def test_a_newer_run_shuts_the_older_one_out(home: Home) -> None:
    home.write("shop.py", SLOW)
    older = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, older)
    (home.home / "there").unlink()
    newer = home.start("pipeline", "run", "shop.py")
    wait_until((home.home / "there").exists, newer)
    (home.home / "go").touch()
    assert ended(newer).code == 0
    ran = ended(older)
    assert ran.code == 4, ran.err
    assert re.search("A newer run|writes to this sink now", ran.err), ran.err  # the log or the sink may be the first to say so
    assert home.ids("archive") == list(range(MANY))
    assert home.rows("select count(*) from orders") == [(MANY,)]
    assert home.positions() == {"archive": MANY, "report": MANY}


def test_beside_a_run_that_follows_a_stopped_sink_is_mended_and_goes_on(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(40, at14={"price": None}, at20={"price": None}, at30={"price": None}, at38={"price": None})
    home.write("shop.py", followed(home.data, SHOP, (tmp_path / "orders.jsonl").read_text().splitlines()))
    running = home.start("pipeline", "run", "shop.py", "--follow")
    try:
        assert running.stderr is not None
        told = running.stderr.readline() + running.stderr.readline()  # what it says as soon as it sees it
        edited = home.pipeline("edit", "shop", "14", "--set", "price=1", "--why", "left out")
        assert edited.err.splitlines()[0] == "report goes on by itself."
        wait_until(lambda: home.positions()["report"] == 19, running)
        assert home.pipeline("ack", "shop", "report", "20", "--why", "skip it").code == 0
        wait_until(lambda: home.positions()["report"] == 29, running)
        assert home.pipeline("offset", "shop", "mark", "report", "30", "--why", "past it").code == 0
        wait_until(lambda: home.positions()["report"] == 37, running)
        home.change("delete from orders where _id > 33")
        assert home.pipeline("offset", "shop", "mark", "report", "33", "--why", "and back").code == 0
        wait_until(lambda: home.rows("select max(_id) from orders") == [(37,)], running)
        assert home.pipeline("edit", "shop", "38", "--set", "price=1", "--why", "the last one").code == 0
        wait_until(lambda: home.positions() == {"archive": 39, "report": 39}, running)
    finally:
        ran = ended(running, by=[signal.SIGTERM])
    assert ran.code == 0, ran.err
    assert told.startswith("report stands at message 14: Transform python(with_total) raised TypeError")
    assert told.endswith("  See it, and what to do: headwater pipeline xlog shop show 14\n")
    assert [row[0] for row in home.rows("select _id from orders order by 1")] == [n for n in range(40) if n not in (20, 30)]


def test_a_sink_that_is_waited_for_is_seen_elsewhere(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(3)
    got: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook, bind_and_activate=False) as server:
        server.server_bind()  # the port is taken, and nobody listens
        hook = f'http("http://127.0.0.1:{server.server_address[1]}/"), timeout="1s")'
        home.write(
            "shop.py", SHOP.replace('sqlite("report.db", table="orders"))', hook).replace("import file, sqlite", "import file, http")
        )
        running = home.start("pipeline", "run", "shop.py")
        try:
            wait_until(lambda: "report unreachable" in home.pipeline("status", "shop").out, running)
            shown = home.pipeline("status", "shop")
            assert "cannot be reached: Connection refused" in shown.out
            assert "The run waits for report since " in shown.out
            assert [one["state"] for one in home.pipeline("offset", "shop", "list", "--json").json] == ["idle", "unreachable"]
            server.server_activate()
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            ran = ended(running)
            server.shutdown()
            thread.join()
        finally:
            running.kill()
    assert ran.code == 0, ran.err
    assert len(got) == 3
    assert home.pipeline("status", "shop").out.startswith("shop: done")


ON_SPARK = """
import os
import signal
from pathlib import Path

from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file, sqlite

HOME = Path({home!r})
RUNNER = os.getpid()


def kills_the_runner(message):  # inside a task of Spark, in another process than the run
    if message.data["_id"] == 15_000 and not (HOME / "died").exists():
        (HOME / "died").touch()
        os.kill(RUNNER, signal.SIGKILL)
    return message


p = Pipeline("shop")
rows = p.source("orders", file("orders.jsonl"))
rows.save("single", file("single.csv"))
rows.transform(python(kills_the_runner, keeps_id=True)).save("report", sqlite("report.db", table="orders"))
rows.transform(python(kills_the_runner, keeps_id=True)).save("archive", file("archive/", format="parquet"))
"""


@pytest.mark.spark
def test_the_runner_killed_under_tasks_of_spark(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.documents(20_000)
    home.write("shop.py", ON_SPARK.replace("{home!r}", repr(str(tmp_path))))
    assert home.pipeline("run", "shop.py", HEADWATER_SPARK__START="eager").code == KILLED
    assert (tmp_path / "died").exists()
    ran = home.pipeline("run", "shop.py", HEADWATER_SPARK__START="eager")
    assert ran.code == 0, ran.err
    for sink in ("single", "report", "archive"):
        found = home.pipeline("verify", "shop", sink)
        assert (found.code, found.out.splitlines()[-1]) == (0, "verify: equal"), found.err
    assert home.rows("select count(*) from orders") == [(20_000,)]


def test_a_stop_while_the_file_is_loaded_ends_before_the_run_begins(home: Home) -> None:
    home.write("in.jsonl", '{"_id":1}\n')
    home.write(
        "early.py",
        "import os, signal\n"
        "from headwater.pipeline import Pipeline\n"
        "from headwater.pipeline.adaptors import file\n"
        "p = Pipeline('early')\n"
        "p.source('s', file('in.jsonl')).save('out', file('out.jsonl'))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n",
    )
    ran = home.pipeline("run", "early.py")
    assert ran.code == 0
    assert "Stopped before the run began; nothing is read." in ran.err
    assert not (home.home / "out.jsonl").exists()
