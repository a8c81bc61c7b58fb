"""A process that runs a projection into SQLite: `python projection_worker.py DATA MODEL [once]`. A paused member loses its share soon."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Any

from headwater.cluster.local_shares import LocalShares
from headwater.journal.projection import Projection
from headwater.journal.projection_run import ProjectionRun
from headwater.log.embedded.log import EmbeddedLog

LEASE = 1.0


def main(data: Path, model: Path, *, once: bool) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(model, timeout=30)

    def handle(event: Any, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO seen VALUES (?, ?, ?)", (event.id, event.seq_nr, event.offset))

    with EmbeddedLog(data) as log:
        topic = log.topic("journal-bank")

        def shares(topic: Any) -> LocalShares:
            made = LocalShares(data / "projections" / topic.name / "seen", topic.partitions, lease=LEASE)
            made.start()
            return made

        projection = Projection("bank", "seen", handle, connect=connect, batch=20)
        ProjectionRun(projection, log, topic, store=lambda: None, shares=shares).run(once=once)  # type: ignore[arg-type, return-value]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), once="once" in sys.argv)
