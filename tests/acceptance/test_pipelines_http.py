"""A pipeline that stops at a record is seen, corrected and brought to its end over HTTP, by a server that was started somewhere else."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from forked_program import ForkedProgram
from free_port import free_port
from pipeline_home import followed, wait_until
from program import Program, environment

import headwater
from headwater.core.errors import Conflict, Stopped
from headwater.server.spawned import SpawnedServer

SHOP = """
from headwater.pipeline import DeadLetter, Pipeline, python
from headwater.pipeline.adaptors import file, sqlite

print("what the file prints is no answer")


def total(message):
    message.data["total"] = message.data["price"] * message.data["qty"]
    return message


p = Pipeline("shop")
rows = p.source("orders", file("orders.jsonl"))
rows.save("archive", file("archive/", format="jsonl"))
rows.transform(python(total, keeps_id=True)).save("report", sqlite("report.db", table="orders"))
rows.transform(python(total, keeps_id=True)).save("careful", sqlite("careful.db", table="orders"), on_error=DeadLetter())
"""
RECORDS = 30
AT = "/pipelines/shop"
NO_SPARK = {"HEADWATER_SPARK__START": "never"}


class Shop:
    """A pipeline that was run by the program in its own folder, and stopped at record 14; a server of its data, started elsewhere."""

    def __init__(self, folder: Path, forked_program: ForkedProgram) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        (folder / "elsewhere").mkdir()
        self.program = Program(self.home, forked_program)
        (self.home / "shop.py").write_text(SHOP)
        lines = [f'{{"_id": {n}, "price": 2.10, "qty": {"null" if n == 14 else n}}}\n' for n in range(RECORDS)]
        (self.home / "orders.jsonl").write_text("".join(lines))
        self.elsewhere = folder / "elsewhere"

    def follow(self) -> None:
        """From now on its source is one that is followed."""
        (self.home / "shop.py").write_text(followed(self.program.data, SHOP, (self.home / "orders.jsonl").read_text().splitlines()))

    def run(self) -> int:
        return self.program("pipeline", "run", "shop.py", **NO_SPARK).code

    def rows(self, database: str = "report.db") -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self.home / database)
        try:
            return db.execute("select _id, qty, total from orders order by _id").fetchall()
        finally:
            db.close()


@pytest.fixture
def shop(tmp_path: Path, forked_program: ForkedProgram) -> Shop:
    return Shop(tmp_path, forked_program)


@pytest.fixture
def http(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx2.Client]:
    assert shop.run() == 9
    monkeypatch.chdir(shop.elsewhere)
    with SpawnedServer(shop.program.data, environ=environment()) as server:
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=120) as client:
            yield client


def got(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def place(http: httpx2.Client, sink: str) -> Any:
    return got(http.get(f"{AT}/offsets/{sink}"))


def test_the_poison_drill_over_http(shop: Shop, http: httpx2.Client) -> None:
    # It stands at record 14; the other sinks have everything.
    status = got(http.get(AT))
    assert status["state"] == "stopped at report"
    assert {one["sink"]: (one["position"], one["state"]) for one in status["sinks"]} == {
        "archive": (RECORDS, "idle"),
        "careful": (RECORDS, "idle"),
        "report": (13, "stopped"),
    }
    assert status == shop.program("pipeline", "status", "shop", "--json").json
    # The record is seen with its error.
    (seen,) = got(http.get(f"{AT}/log?from=14&to=14"))["items"]
    assert seen["data"] == {"_id": 14, "price": 2.1, "qty": None}
    (refused,) = seen["refused"]
    assert refused["sink"] == "report"
    assert "TypeError" in refused["message"]
    assert "TypeError" in place(http, "report")["error"]["trace"]
    # Sent again as it is, it is refused again.
    problem = got(http.post(f"{AT}/sinks/report/step", json={"why": "perhaps now"}), 422)
    assert (problem["code"], "message 14" in problem["detail"]) == ("stopped", True)
    assert 'Message 14, insert of orders: {"_id":14,"price":2.10,"qty":null}' in problem["hint"]
    assert "PUT /pipelines/shop/edits/14" in problem["hint"]
    assert "headwater pipeline edit shop 14" in problem["command"]
    assert place(http, "report")["position"] == 13
    # Corrected, it is taken, and so is the rest.
    correction = {"set": {"qty": 3}, "why": "the customer said three"}
    assert got(http.put(f"{AT}/edits/14?dry_run=true", json=correction))["dry_run"] is True
    made = got(http.put(f"{AT}/edits/14", json=correction))
    assert made["data"] == {"_id": 14, "price": 2.1, "qty": 3}
    assert (made["standing"], made["dead"], made["taken"]) == (["report"], ["careful"], ["archive"])
    assert got(http.post(f"{AT}/sinks/report/step?dry_run=true", json={}))["position"] == 13
    assert got(http.post(f"{AT}/sinks/report/step", json={"count": 2, "why": "go on"})) == {
        "sink": "report", "taken": 2, "offsets": [14, 15], "position": 15, "next": 16, "dry_run": False,
    }  # fmt: skip
    assert shop.run() == 0
    assert place(http, "report")["lag"] == 0
    assert len(shop.rows()) == RECORDS
    assert shop.rows()[14] == (14, 3, 6.3)  # a number, as SQLite compares it
    assert got(http.get(f"{AT}/verify/report"))["equal"] is True
    # Whoever does not want to wait gets a job, which tells how far it is.
    begun = http.get(f"{AT}/verify/report", headers={"Prefer": "respond-async"})
    assert got(begun, 202)["state"] == "running"
    ended = got(http.get(begun.headers["location"], params={"wait": 60}))
    assert (ended["state"], ended["answer"]["equal"], ended["done"], ended["total"]) == ("done", True, RECORDS + 1, RECORDS + 1)
    # Nothing was written where the server happens to run.
    assert os.listdir(shop.elsewhere) == []
    audit = got(http.get(f"{AT}/audit"))["items"]
    assert [(entry["who"], entry["what"], entry["why"]) for entry in audit] == [
        ("http from 127.0.0.1", "step", "perhaps now"),
        ("http from 127.0.0.1", "edit", "the customer said three"),
        ("http from 127.0.0.1", "step", "go on"),
    ]


def test_what_was_taken_back_is_sent_again_and_what_was_put_aside_too(shop: Shop, http: httpx2.Client) -> None:
    # Taken back: the sink that holds its own position writes it again.
    db = sqlite3.connect(shop.home / "report.db")
    with db:
        db.execute("delete from orders where _id in (3, 7)")
    db.close()
    assert got(http.get(f"{AT}/verify/report"))["missing"] == 2
    assert got(http.post(f"{AT}/sinks/report/replay", json={"first": 3, "last": 3, "why": "lost"}))["written"] == 1
    assert got(http.put(f"{AT}/offsets/report", json={"position": 6, "why": "lost"})) == {
        "sink": "report", "before": 13, "position": 6, "dry_run": False,
    }  # fmt: skip
    assert got(http.post(f"{AT}/sinks/report/step", json={"count": 7}))["position"] == 13
    assert [row[0] for row in shop.rows()] == list(range(14))
    assert got(http.get(f"{AT}/verify/report"))["equal"] is True
    # Put aside: looked at, corrected, sent.
    (dead,) = got(http.get(f"{AT}/dead"))["items"]
    assert (dead["sink"], dead["offset"]) == ("careful", 14)
    assert got(http.get(f"{AT}/dead/14"))["record"]["data"]["qty"] is None
    assert got(http.post(f"{AT}/dead/14/retry", json={}), 422)["code"] == "stopped"
    got(http.put(f"{AT}/edits/14", json={"set": {"qty": 0}, "sink": "careful", "why": "free"}))
    assert got(http.post(f"{AT}/dead/14/retry", json={"why": "corrected"}))["done"] == "taken"
    assert got(http.get(f"{AT}/dead"))["items"] == []
    assert [row[0] for row in shop.rows("careful.db")] == list(range(RECORDS))
    # Skipped: the one that still stands there goes on.
    assert got(http.post(f"{AT}/sinks/report/ack", json={"offset": 14, "why": "not needed"}))["position"] == 14
    assert shop.run() == 0
    assert [row[0] for row in shop.rows()] == [n for n in range(RECORDS) if n != 14]
    assert got(http.post(f"{AT}/compact"))["dry_run"] is False


def test_the_server_measures_every_pipeline(shop: Shop, http: httpx2.Client) -> None:
    text = http.get("/metrics").text
    lines = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}
    report = '{pipeline="shop",sink="report"}'
    assert lines[f"headwater_pipeline_sink_offset{report}"] == 13
    assert lines[f"headwater_pipeline_sink_lag_records{report}"] == RECORDS - 13
    assert lines[f"headwater_pipeline_stopped{report}"] == 1
    assert lines['headwater_pipeline_stopped{pipeline="shop",sink="archive"}'] == 0


@pytest.fixture
def live(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    """A run that goes on, with a sink that stands at record 14."""
    shop.follow()
    running = shop.program.start("pipeline", "run", "shop.py", "--follow", **NO_SPARK)
    yield running
    running.kill()
    running.communicate()


def test_a_live_run_is_corrected_and_goes_on_to_the_end(shop: Shop, live: subprocess.Popen[str]) -> None:
    with SpawnedServer(shop.program.data, environ=environment()) as server, headwater.open_blocking(server.url) as hw:
        wait_until(lambda: standing(hw), live)
        with pytest.raises(Conflict, match="A run delivers to archive now"):
            hw.pipelines["shop"].step("archive")
        hw.pipelines["shop"].edit(14, set={"qty": 5}, why="typo")
        wait_until(lambda: [sink.position for sink in hw.pipelines["shop"].offsets()] == [RECORDS - 1] * 3, live)
        hw.pipelines["shop"].stop()
        assert live.wait(240) == 0
    assert shop.rows()[14][1] == 5


def test_a_live_run_is_asked_to_stop(shop: Shop, live: subprocess.Popen[str]) -> None:
    with SpawnedServer(shop.program.data, environ=environment()) as server, headwater.open_blocking(server.url) as hw:
        wait_until(lambda: standing(hw), live)
        assert hw.pipelines["shop"].stop(why="the evening", dry_run=True).dry_run
        assert hw.pipelines["shop"].stop(why="the evening").stopping
        assert live.wait(240) == 9  # because a sink stands at its record
        assert hw.pipelines["shop"].status().state == "stopped at report"
        assert [(entry.what, entry.why) for entry in hw.pipelines["shop"].audit()] == [("stop", "the evening")]


def standing(hw: Any) -> bool:
    """Whether the run has brought every sink as far as it goes."""
    found = hw.pipelines.list()
    return bool(found) and sorted((one.position, one.state == "stopped") for one in found[0].sinks) == [
        (13, True), (RECORDS - 1, False), (RECORDS - 1, False),
    ]  # fmt: skip


def test_the_door_over_a_directory_sends_from_another_folder(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.run() == 9
    monkeypatch.chdir(shop.elsewhere)
    with headwater.open_blocking(shop.program.data) as hw:
        pipeline = hw.pipelines["shop"]
        with pytest.raises(Stopped, match="message 14"):
            pipeline.step("report")
        pipeline.edit(14, set={"qty": 1}, why="typo")
        assert pipeline.step("report", 100).taken == RECORDS - 13
        assert pipeline.verify("report").equal
        (shop.home / "shop.py").write_text("import os\n\nos._exit(3)\n")
        with pytest.raises(headwater.HeadwaterError) as caught:
            pipeline.replay("report", 0, 1)
        assert "headwater pipeline replay shop" in caught.value.hint
    assert len(shop.rows()) == RECORDS
    assert os.listdir(shop.elsewhere) == []


def test_a_run_shows_its_own_metrics(shop: Shop) -> None:
    with socket.socket() as taken:
        port = str(free_port())
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        ran = shop.program("pipeline", "run", "shop.py", "--metrics-port", port, **NO_SPARK)
        assert ran.code == 4
        assert f"Port {port} cannot be used" in ran.err
    shop.follow()
    running = shop.program.start("pipeline", "run", "shop.py", "--follow", "--metrics-port", port, **NO_SPARK)
    report = '{pipeline="shop",sink="report"}'

    def shown() -> bool:
        try:
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        except httpx2.TransportError:
            return False
        return f"headwater_pipeline_records_total{report} 14.0" in text and f"headwater_pipeline_stopped{report} 1.0" in text

    try:
        wait_until(shown, running)
    finally:
        running.kill()
        running.communicate()


def test_a_program_without_the_file_is_told(shop: Shop, http: httpx2.Client) -> None:
    (shop.home / "shop.py").rename(shop.home / "other.py")
    problem = got(http.post(f"{AT}/sinks/report/step", json={}), 404)
    assert "shop.py" in problem["detail"]
