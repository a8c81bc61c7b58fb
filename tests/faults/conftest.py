"""Fault loops run thousands of short lives: in memory where the machine has such a directory, because their syncs are real calls."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from strace import Strace, find
from tools.services.place import Place

from headwater.core.errors import Unreachable, Unsupported


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 3 MiB. Mounting needs rights that not every machine gives."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture(scope="session")
def strace() -> Strace:
    """The tracer of system calls. Where it cannot be had the test is skipped, or fails when the variable CI is set."""
    try:
        return find(Place.usual())
    except (Unreachable, Unsupported) as problem:
        if os.environ.get("CI"):
            pytest.fail(f"strace cannot be had: {problem}", pytrace=False)
        pytest.skip(f"strace cannot be had here: {problem}")
