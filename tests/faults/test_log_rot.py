"""Files of every kind rot, and the log is used all the same: damage never becomes silent, and never final without being told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from rot import Ground, prepare, round_of

ROUNDS = int(os.environ.get("SOAK_ROT_ROUNDS", "60"))


@pytest.mark.parametrize("settled", [True, False], ids=["closed", "killed"])
def test_what_is_lost_is_told(memory_path: Path, tmp_path: Path, settled: bool) -> None:
    ground: Ground = prepare(memory_path / "ground", settled=settled)
    problems = []
    for seed in range(ROUNDS):
        found = round_of(ground, memory_path / "rounds", seed)
        if found:
            shutil.copytree(memory_path / "rounds" / f"{seed}", tmp_path / f"kept-{seed}")
        shutil.rmtree(memory_path / "rounds")
        problems += found
    if problems:
        pytest.fail(f"{len(problems)} problems; the files are kept in {tmp_path}:\n" + "\n".join(problems[:8]), pytrace=False)
