from __future__ import annotations

import io
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core.settings import Settings, SparkSettings
from headwater.documents.index.build_process import BuildMessage, BuildOrder, carry_out, encode_order, framed, read_framed
from headwater.documents.index.shard_jobs import StorePlace
from headwater.log.address import LogAddress


def order(data: Path) -> BuildOrder:
    settings = Settings(data=data, spark=SparkSettings(start="never"))
    place = StorePlace(settings=settings, data=data, partition=0, generation="g")
    return BuildOrder(place=place, log=LogAddress(path=str(data)), uri="c~", number=9)


def test_messages_come_back_as_they_were(tmp_path: Path) -> None:
    stream = io.BytesIO(encode_order(order(tmp_path)) + framed(b"") + framed("ä".encode()))
    assert pickle.loads(read_framed(stream)) == order(tmp_path)
    assert [read_framed(stream), read_framed(stream).decode()] == [b"", "ä"]
    for cut in (b"", b"\x00" * 3):
        with pytest.raises(EOFError):
            read_framed(io.BytesIO(cut))


def test_without_spark_it_says_why(tmp_path: Path) -> None:
    [message] = carry_out(order(tmp_path), lambda: pytest.fail("It has not begun."))
    assert message == BuildMessage(problem='This needs Spark, which is not started here. Set spark.start = "lazy".')


def test_a_process_whose_parent_dies_ends() -> None:
    command = [sys.executable, "-P", "-m", "headwater.documents.index.build_process"]
    assert subprocess.run(command, input=b"\x00" * 3, capture_output=True, check=True).stdout == b""
