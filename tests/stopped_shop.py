"""A stopped pipeline, as a run and its sinks leave it."""

from __future__ import annotations

from pathlib import Path

from headwater.core.clock import SystemClock
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Dead, Failure, ReaderState, RunInfo, SinkState


def fill_stopped_shop(data: Path) -> Path:
    """Make a data directory with the pipeline `shop`, and return it.

    It has 16 messages of two namespaces; `archive` has all but message 5, which it put aside; `report` stands at message 14.
    """
    with EmbeddedLog(data) as log:
        log.create_topic(log_topic("shop"), part=PART)
        writer = log.claim(log_topic("shop"), 0, part=PART)
        writer.append([Record(b"orders" if n % 2 else b"returns", b'{"_id":%d,"price":%d.10}' % (n, n)) for n in range(14)])
        writer.append([Record(b"orders", b'{"_id":14,"price":"many"}'), Record(b"orders", b'{"_id":15,"price":15.10}')])
        failure = Failure(offset=14, error="ValueError", message="no number: 'many'", trace="line 1\nline 2", at=1_700_000_000_000)
        changes: list[Change] = [
            (
                "run",
                RunInfo(
                    epoch=writer.epoch, id="r", began=1_700_000_000_000, state="stopped", process="host:1", sinks=("archive", "report")
                ),
            ),
            ("reader", ReaderState(run="r", plan={}, begun=0, upto=16, copied=True)),
            ("sink/archive", SinkState(position=15)),
            ("sink/report", SinkState(position=13, failure=failure)),
            ("taken/archive/orders", 15),
            ("taken/report/orders", 13),
            ("dead/archive/5", Dead(sink="archive", offset=5, error="Rejected", message="no room", at=1_700_000_000_000, tries=3)),
        ]
        Control.create(log, "shop", SystemClock()).change(lambda state: changes)
    return data
