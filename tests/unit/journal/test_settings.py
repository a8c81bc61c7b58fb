"""What users set of journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.journal.settings import JOURNAL_SECTION, JournalSettings


def read(folder: Path, text: str) -> JournalSettings:
    (folder / "headwater.toml").write_text(text)
    return JOURNAL_SECTION.of(load(environ={}, cwd=folder).settings)


def test_settings_have_defaults_and_are_read(tmp_path: Path) -> None:
    usual = read(tmp_path, "")
    assert (usual.partitions, usual.segment_size, usual.prefixes, usual.duplicates) == (0, 10_000, ("journal",), "first")
    given = read(tmp_path, '[journal]\npartitions = 3\nprefixes = ["events"]\nduplicates = "last"\nkeep = "7d"\n')
    assert (given.partitions, given.prefixes, given.duplicates, int(given.keep)) == (3, ("events",), "last", 7 * 86_400_000)


@pytest.mark.parametrize("text", ["segment_size = 1", 'duplicates = "none"', 'keep = "7"', "partition = 3"])
def test_settings_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig):
        read(tmp_path, f"[journal]\n{text}\n")
