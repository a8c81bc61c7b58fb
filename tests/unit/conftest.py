"""What unit tests of several parts need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import httpcore2
import pytest
from tests.stopped_shop import fill_stopped_shop


@pytest.fixture
def stopped_shop(tmp_path: Path) -> Path:
    """A data directory with the stopped pipeline `shop`."""
    return fill_stopped_shop(tmp_path / "data")


@pytest.fixture(autouse=True, scope="session")
def _files_read_once() -> Iterator[None]:
    """Every run and every server reads headwater's version from the package, every HTTP client the certificates of the machine."""
    with pytest.MonkeyPatch.context() as patched:
        if find_spec("sniffio") is None:  # which every request to an application in this process looks for
            patched.setitem(sys.modules, "sniffio", None)
        patched.setattr(metadata, "version", cache(metadata.version))
        patched.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))
        yield
