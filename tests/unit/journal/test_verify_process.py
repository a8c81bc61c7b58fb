from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from tests.unit.journal.ground import TOPIC, appended, ground_at

from headwater.core.settings import Settings, SparkSettings
from headwater.journal.verify_process import VerifyOrder, carry_out, encode_order, read_order
from headwater.wire.progress import heard_by


def order(data: Path) -> VerifyOrder:
    return VerifyOrder(settings=Settings(data=data, spark=SparkSettings(start="never")), data=data, topic=TOPIC, large=1)


def test_an_order_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_order(io.BytesIO(encode_order(order(tmp_path)))) == order(tmp_path)
    for cut in (b"", b"\x00" * 3):
        with pytest.raises(EOFError):
            read_order(io.BytesIO(cut))


def test_it_compares_tells_its_progress_and_says_what_is_wrong(tmp_path: Path) -> None:
    with ground_at(tmp_path) as ground:
        ground.topic(partitions=1)
        ground.append(appended("a", 1), appended("a", 2))
        ground.loop().catch_up()
    heard: list[tuple[int, int]] = []
    with heard_by(lambda done, total: heard.append((done, total))):
        found = carry_out(order(tmp_path)).found
    assert found is not None
    assert (found.equal, found.engine) == (True, "here")  # Spark is not to be started
    assert heard[-1] == (2, 2)
    wrong = carry_out(msgspec.structs.replace(order(tmp_path), topic="journal-bnak"))
    assert (wrong.found, wrong.code) == (None, "unknown-topic")
