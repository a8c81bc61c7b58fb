"""The names of disposals, and what they say."""

from __future__ import annotations

from headwater.core.disposal import DISPOSALS, overwrites, recycles, shortens


def test_every_policy_can_be_secure() -> None:
    plain = [one for one in DISPOSALS if not overwrites(one)]
    assert [one for one in DISPOSALS if overwrites(one)] == [f"secure-{one}" for one in plain]


def test_a_file_is_kept_by_reset_and_truncate() -> None:
    assert {one for one in DISPOSALS if recycles(one)} == {"reset", "truncate", "secure-reset", "secure-truncate"}
    assert {one for one in DISPOSALS if shortens(one)} == {"truncate", "secure-truncate"}
