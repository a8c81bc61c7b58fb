"""A folder with a pipeline in it, for tests that run it through the real program."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from program import Program, Ran

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record

SHOP = """
from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file, sqlite


def with_total(message):
    message.data["total"] = message.data["price"] * message.data["qty"]
    return message


p = Pipeline("shop")
rows = p.source("orders", file("orders.jsonl"))
rows.save("archive", file("archive/", format="jsonl"))
rows.transform(python(with_total, keeps_id=True)).save("report", sqlite("report.db", table="orders"))
"""


class Home(Program):
    """`headwater pipeline` in a directory of its own."""

    def pipeline(self, *words: str, **env: str) -> Ran:
        return self("pipeline", *words, **env)

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.write_text(text)
        return path

    def documents(self, count: int, *, name: str = "orders.jsonl", **odd: Any) -> None:
        """`count` orders, `_id` = offset; `at14={"price": None}` changes one."""
        lines = []
        for number in range(count):
            document: dict[str, Any] = {"_id": number, "item": "pen", "price": 2, "qty": number % 7}
            lines.append(json.dumps(document | odd.get(f"at{number}", {})))
        self.write(name, "".join(f"{line}\n" for line in lines))

    def ids(self, path: str) -> list[int]:
        """The ids in a file or a folder of JSON lines, in order."""
        place = self.home / path
        files = sorted(place.glob("part-*")) if place.is_dir() else [place]
        return [json.loads(line)["_id"] for one in files for line in one.read_text().splitlines()]

    def rows(self, query: str, database: str = "report.db") -> list[tuple[Any, ...]]:
        db = sqlite3.connect(self.home / database)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def change(self, statement: str, database: str = "report.db") -> None:
        db = sqlite3.connect(self.home / database)
        try:
            with db:
                db.execute(statement)
        finally:
            db.close()

    def positions(self, name: str = "shop") -> dict[str, int]:
        return {one["sink"]: one["position"] for one in self.pipeline("offset", name, "list", "--json").json}

    def end_of_offsets(self, name: str = "shop") -> int:
        """How many changes the offset log has seen: a command that changes nothing leaves it as it is."""
        stats = self("log", "stats", f"pipeline-{name}-offsets", "--json").json
        end: int = stats[0]["end"]
        return end

    def everything(self) -> dict[str, tuple[int, int]]:
        """Every file below the home with its size and time of change."""
        return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in sorted(self.home.rglob("*")) if one.is_file()}


def followed(data: Path, text: str, lines: Iterable[str]) -> str:
    """A pipeline's text whose source is a topic of these documents instead of a file: a run of it goes on until it is stopped."""
    with EmbeddedLog(data) as log:
        log.create_topic("orders")
        log.append("orders", 0, [Record(None, line.encode()) for line in lines])
    return text.replace('file("orders.jsonl")', 'headwater("data", topic="orders")').replace("import file", "import file, headwater")


def wait_until(true: Callable[[], bool], running: subprocess.Popen[str] | None = None, *, seconds: float = 240) -> None:
    """Poll. A program that ends before what it should do is a failure at once."""
    deadline = time.monotonic() + seconds
    while not true():
        if running is not None and running.poll() is not None:
            raise AssertionError(f"It ended with {running.returncode}: {running.communicate()[1]}")
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def ended(running: subprocess.Popen[str], *, by: Sequence[int] = ()) -> Ran:
    """Send signals, wait for the end."""
    for number in by:
        running.send_signal(number)
    out, err = running.communicate(timeout=240)
    return Ran(running.returncode, out, err)


KILLED = -signal.SIGKILL
