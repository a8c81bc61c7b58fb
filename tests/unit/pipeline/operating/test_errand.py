"""Errands: what is only looked at is opened so that nothing can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.log.address import LogAddress
from headwater.pipeline.operating.desk import Desk
from headwater.pipeline.operating.errand import Errand, Verb, done


@pytest.mark.parametrize(
    ("verb", "dry_run", "code"),
    [
        ("step", True, "read-only"),
        ("replay", True, "read-only"),
        ("retry", True, "read-only"),
        ("verify", None, "read-only"),
        ("step", False, ""),
        ("retry", None, ""),
    ],
)
def test_a_trial_cannot_write(stopped_shop: Path, monkeypatch: pytest.MonkeyPatch, verb: Verb, dry_run: bool | None, code: str) -> None:
    def writing(desk: Desk, **arguments: Any) -> None:
        desk.operator.note("test", "")

    monkeypatch.setattr(Desk, verb, writing)
    arguments = {} if dry_run is None else {"dry_run": dry_run}
    outcome = done(Errand(log=LogAddress(path=str(stopped_shop)), pipeline="shop", who="w", verb=verb, arguments=arguments))
    assert outcome.code == code
