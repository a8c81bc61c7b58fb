"""A torn tail is cut off while other processes look at it: a reader that touched bytes beyond the file's new end would die of SIGBUS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.testing.faults import crash

BEFORE, NOW = b"b" * 16, b"n" * 16
TORN = 24 << 20  # looking through it takes longer than cutting it off

READING = """
import sys
from headwater.log.embedded.check import check, stats
from headwater.log.embedded.log import EmbeddedLog

data, what = sys.argv[1:]
kept = EmbeddedLog(data, read_only=True, boot=b"n" * 16)
batches = []
while kept.bounds("t", 0).end < 4:
    with EmbeddedLog(data, read_only=True, boot=b"n" * 16) as log:
        if what == "bounds":
            assert log.bounds("t", 0).end >= 3
        elif what == "scan":
            batches += log.scan("t", 0, 0)
            assert batches[-1].column("value").to_pylist()[:3] == [b"%d" % n * 30 for n in range(3)]
        else:
            assert not check(log.reader("t", 0)).damage
    print("looked", flush=True)
for batch in batches:
    assert batch.column("value").to_pylist()[:3] == [b"%d" % n * 30 for n in range(3)]
"""


@pytest.mark.parametrize("what", ["bounds", "scan", "check"])
def test_a_reader_survives_the_recovery_of_a_torn_tail(memory_path: Path, what: str) -> None:
    log = EmbeddedLog(memory_path, boot=BEFORE)
    log.create_topic("t")
    for n in range(3):
        log.append("t", 0, [Record(b"k", b"%d" % n * 30)])
    crash(log)
    path = next((memory_path / "log" / "t" / "0").glob("*.log"))
    with path.open("ab") as file:
        file.write(Random(1).randbytes(1 << 20) * (TORN >> 20))
    reader = subprocess.Popen([sys.executable, "-c", READING, str(memory_path), what], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"looked\n"
    with EmbeddedLog(memory_path, boot=NOW) as writer:
        assert writer.append("t", 0, [Record(b"k", b"3" * 30)]) == range(3, 4)
        _, said = reader.communicate(timeout=240)
        assert reader.returncode == 0, said.decode() or f"the reader died of signal {-reader.returncode}"


def test_a_reader_that_holds_a_map_survives_a_cut(memory_path: Path) -> None:
    """Only durable bytes are mapped: columns that were read before a torn tail is cut off can be used, written and copied whole after."""
    import pyarrow as pa

    log = EmbeddedLog(memory_path, boot=NOW)
    log.create_topic("t")
    log.append("t", 0, [Record(b"k", b"a value that does not fit into the view itself")])
    crash(log)
    path = next((memory_path / "log" / "t" / "0").glob("*.log"))
    durable = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\1" * (1 << 20))
    reading = EmbeddedLog(memory_path, read_only=True, boot=NOW)
    (batch,) = reading.scan("t", 0, 0)
    with EmbeddedLog(memory_path, boot=NOW) as writer:
        writer.append("t", 0, [Record(b"k", b"next")])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)  # writes the buffer behind the views as a whole
        assert sink.getvalue().size < durable + 4096
        assert batch.column("value").to_pylist() == [b"a value that does not fit into the view itself"]
