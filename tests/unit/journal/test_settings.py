from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.core.settings import Settings
from headwater.journal.settings import JOURNAL_SECTION, JournalSettings


def _loaded(folder: Path, text: str) -> JournalSettings:
    (folder / "headwater.toml").write_text(text)
    return JOURNAL_SECTION.of(load(cwd=folder, environ={}).settings)


def test_defaults_hold_without_a_section() -> None:
    assert JOURNAL_SECTION.of(Settings()) == JournalSettings()
    assert (JournalSettings().prefixes, JournalSettings().duplicates, JournalSettings().replicate) == (("journal",), "first", True)


def test_every_setting_is_read(tmp_path: Path) -> None:
    text = '[journal]\nreplicate = false\nround = "1s"\npartitions = 4\nsegment_size = 2\nsmall = 0\nkeep = "7d"\nprefixes = ["j", "k"]\n'
    found = _loaded(tmp_path, text + 'duplicates = "fail"\n')
    assert (found.replicate, int(found.round), found.partitions, found.segment_size, found.small) == (False, 1000, 4, 2, 0)
    assert (int(found.keep), found.prefixes, found.duplicates) == (604_800_000, ("j", "k"), "fail")


@pytest.mark.parametrize(
    "line", ["segment_size = 1", "partitions = -1", "small = -2", 'keep = "7"', 'duplicates = "all"', "replicate = 1", "x = 1"]
)
def test_what_does_not_fit_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadConfig):
        _loaded(tmp_path, f"[journal]\n{line}\n")
