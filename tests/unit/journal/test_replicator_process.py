from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.journal.ground import Ground, appended, eventually

from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings, StoreSettings
from headwater.journal.replicator_process import FAILED, order, read_order
from headwater.journal.settings import JournalSettings


@contextmanager
def started(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater.journal.replicator_process"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(order(settings))
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_settings_travel_with_the_sections_of_parts() -> None:
    settings = Settings(sections={"journal": JournalSettings(small=7)})
    assert read_order(io.BytesIO(order(settings))) == settings
    with pytest.raises(EOFError):
        read_order(io.BytesIO(b"\0"))


@pytest.mark.parametrize("how", ["SIGTERM", "closed input"])
def test_it_copies_until_its_parent_ends_it(tmp_path: Path, how: str) -> None:
    ground = Ground(tmp_path, SystemClock())
    ground.topic()
    ground.append(appended("a", 1))
    with started(Settings(data=tmp_path, spark=SparkSettings(start="never"))) as process:
        eventually(lambda: ground.pointer() == 0 or process.poll() is not None)
        ground.append(appended("a", 2))
        eventually(lambda: ground.pointer() == 1 or process.poll() is not None)
        assert process.stdin is not None
        if how == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
            process.stdin = None
        assert process.wait(240) == 0
    assert ground.pointer() == 1
    ground.close()


def test_it_tells_why_it_cannot_run(tmp_path: Path) -> None:
    cassandra = StoreSettings(engine="cassandra")  # and no node is named
    with started(Settings(data=tmp_path, store=cassandra, spark=SparkSettings(start="never"))) as process:
        assert process.wait(240) == FAILED
        assert process.stderr is not None
        assert b"contact_points" in process.stderr.read()
