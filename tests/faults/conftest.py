"""Fault loops run thousands of short lives: in memory where the machine has such a directory, because their syncs are real calls."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="headwater-", dir=shared))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
