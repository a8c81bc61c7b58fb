from __future__ import annotations

from pathlib import Path

import pytest

from headwater.client import journal_verify
from headwater.client.journal_verify import verify_elsewhere
from headwater.core.errors import TaskFailed
from headwater.core.settings import Settings
from headwater.journal.verify_process import VerifyOrder

pytestmark = pytest.mark.anyio


async def test_a_process_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_verify.sys, "executable", "/bin/false")
    with pytest.raises(TaskFailed, match="ended with 1"):
        await verify_elsewhere(VerifyOrder(settings=Settings(), data=tmp_path, topic="journal-bank", large=1))
