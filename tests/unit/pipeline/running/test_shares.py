"""Changes that are shared out among tasks: a sink that keeps an order of its own gets them from one."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.core.settings import Settings, SparkSettings
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.adaptors import file
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.running.run import Run

CHANGES = 6000  # more than one task is given


def test_one_file_gets_every_change_of_a_range(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":-1}\n')
    pipeline = Pipeline("p")
    rows = pipeline.source("in", file(str(tmp_path / "in.jsonl")))
    rows.save("one", file(str(tmp_path / "out.jsonl")))
    rows.save("folder", file(f"{tmp_path}/out/"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        changes = [Record(b"in.jsonl", b'{"_id":%d}' % n, mode=Mode.SYNC) for n in range(CHANGES)]
        log.append(log_topic("p"), 0, changes, part=PART)
        settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never", master="local[2]"))
        assert Run(pipeline, log, settings).go().state == "done"
    parts = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    for lines in ((tmp_path / "out.jsonl").read_text().splitlines(), parts):
        assert sorted(json.loads(line)["_id"] for line in lines) == list(range(-1, CHANGES))
