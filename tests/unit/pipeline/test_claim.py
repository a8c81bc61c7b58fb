"""The note of who writes to a target."""

from __future__ import annotations

import os

import msgspec
import pytest

from headwater.core.errors import Conflict
from headwater.pipeline.claim import SinkClaim, checked_owner, this_process
from headwater.testing.clock import ManualClock

MINE = SinkClaim(pipeline="p#1", sink="s", epoch=2)
OTHER = SinkClaim(pipeline="p#2", sink="s", epoch=9, process="h:7", log="/data", beat=5)


def test_a_claim_names_its_log_and_its_process() -> None:
    made = SinkClaim.of_run("p#1", "s", 3, log="/data", clock=ManualClock())
    assert (made.name, made.generation, made.process) == ("p", "1", this_process())
    assert made.process.endswith(f":{os.getpid()}")
    assert made.beat == ManualClock().now_ms()
    assert OTHER.described() == "sink s of pipeline p#2, whose log is at /data (last written by h:7)"
    assert msgspec.json.decode(msgspec.json.encode(made), type=SinkClaim) == made


def test_a_target_is_claimed_by_its_log_or_from_the_owner_that_was_seen() -> None:
    checked_owner(None, MINE, None, "there")
    checked_owner(msgspec.structs.replace(MINE, epoch=1), MINE, None, "there")
    checked_owner(OTHER, MINE, OTHER, "there")
    for former in (None, msgspec.structs.replace(OTHER, beat=6), MINE):
        with pytest.raises(Conflict, match="there belongs to sink s of pipeline p#2"):
            checked_owner(OTHER, MINE, former, "there")
