"""The usual settings are those that are promised."""

from __future__ import annotations

from typing import Annotated, get_args, get_origin, get_type_hints

from headwater.core.settings import Note
from headwater.queue.effective_settings import QUEUE_SECTION, EffectiveSettings


def test_the_usual_settings() -> None:
    usual = EffectiveSettings()
    assert (usual.lease, usual.max_timeouts, usual.max_attempts, usual.max_delay) == (3_600_000, 5, 20, 0)
    assert (usual.clock_ahead, usual.priority, str(usual.period), usual.disposal) == (300_000, 100, "day", "delete")
    assert (usual.concurrency, usual.rate, usual.region, usual.replication) == (0, 0, None, None)


def test_every_setting_has_a_note_whose_bounds_hold_the_usual_value() -> None:
    hints = get_type_hints(EffectiveSettings, include_extras=True)
    for name, hint in hints.items():
        assert get_origin(hint) is Annotated
        [note] = [one for one in get_args(hint) if isinstance(one, Note)]
        value = getattr(EffectiveSettings(), name)
        assert note.text.endswith(".")
        if value is not None and note.least is not None:
            assert note.least <= int(value) <= (note.most if note.most is not None else int(value))


def test_the_section_is_that_of_queues() -> None:
    assert QUEUE_SECTION.name == "queue"
