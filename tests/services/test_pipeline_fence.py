"""A run that was stopped before a batch, while a newer run delivered: its batch does not reach the sink when it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from mongodb_ground import a_database
from pymongo.database import Database

from headwater.core.errors import Fenced
from headwater.testing.log_ground import fresh

pytestmark = pytest.mark.service("kafka")

FILE = """
import os, signal
from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file, headwater, kafka, mongodb


def paused(message):
    if os.environ.get("PAUSED") and message.data["_id"] == 0:
        os.kill(os.getpid(), signal.SIGSTOP)  # the batch is read, and not written
    return message


p = Pipeline(os.environ["NAME"])
p.source("in", file("docs.jsonl")).transform(python(paused, keeps_id=True)).save("out", SINK)
"""


class TwoRuns:
    """A run that stops itself between reading the log and writing to the sink, and a newer one."""

    def __init__(self, folder: Path, servers: str, sink: str) -> None:
        self._folder = folder
        (folder / "p.py").write_text(FILE.replace("SINK", sink))
        self._environ = os.environ | {
            "NAME": fresh("p"),
            "HEADWATER_DATA": str(folder / "data"),
            "HEADWATER_LOG__ENGINE": "kafka",
            "HEADWATER_KAFKA__BOOTSTRAP": servers,
            "HEADWATER_SPARK__START": "never",
        }

    def documents(self, version: int) -> None:
        (self._folder / "docs.jsonl").write_text("".join(f'{{"_id":{n},"version":{version}}}\n' for n in range(20)))

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "headwater.cli", "pipeline", "run", "p.py", *words]
        return subprocess.Popen(
            command, cwd=self._folder, env=self._environ | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def overtaken(self) -> tuple[int, str]:
        """Let the newer run deliver version 2 while the older one is stopped with version 1. The older one's exit code and its output."""
        self.documents(1)
        older = self.start(PAUSED="1")
        try:
            _, status = os.waitpid(older.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), older.communicate()[0]
            self.documents(2)
            newer = self.start("--again")
            said, _ = newer.communicate(timeout=240)
            assert newer.returncode == 0, said
            os.kill(older.pid, signal.SIGCONT)
            said, _ = older.communicate(timeout=240)
            return older.returncode, said
        finally:
            older.kill()


@pytest.fixture
def database(mongodb: str) -> Iterator[Database[dict[str, Any]]]:
    with a_database(mongodb) as database:
        yield database


@pytest.mark.service("mongodb")
def test_a_superseded_run_overwrites_no_newer_documents(
    kafka: str, mongodb: str, database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    code, said = TwoRuns(tmp_path, kafka, f'mongodb("{mongodb}/{database.name}")').overtaken()
    assert (code, "A newer run" in said) == (Fenced("").exit_code, True), said
    assert {one["version"] for one in database["docs"].find()} == {2}


def test_a_superseded_run_appends_nothing_behind_newer_messages(kafka: str, tmp_path: Path) -> None:
    topic = fresh("t")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    code, said = TwoRuns(tmp_path, kafka, f'kafka("{kafka}", topic="{topic}")').overtaken()
    assert (code, "A newer run" in said) == (Fenced("").exit_code, True), said
    reader = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), 20)
        records = [b'"version":2' in (one.value() or b"") for one in reader.consume(end, 20)]
    finally:
        reader.close()
    assert records == [False] * 20 + [True] * 20
