from __future__ import annotations

import io

import pytest

from headwater.core.settings import Settings
from headwater.journal.replicator_process import order, read_order
from headwater.journal.settings import JournalSettings


def test_the_settings_travel_with_the_sections_of_parts() -> None:
    settings = Settings(sections={"journal": JournalSettings(small=7)})
    assert read_order(io.BytesIO(order(settings))) == settings
    with pytest.raises(EOFError):
        read_order(io.BytesIO(b"\0"))
