from __future__ import annotations

import pytest

from headwater.core.spelling import meant, nearest, sentence


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("No such command", "No such command."),
        ("No such command.", "No such command."),
        ("No such command 'shwo'. Did you mean 'show'?", "No such command 'shwo'. Did you mean 'show'?"),
        (" What now! ", "What now!"),
        ("Well...", "Well."),
    ],
)
def test_a_sentence_has_one_mark_at_its_end(text: str, ended: str) -> None:
    assert sentence(text) == ended


def test_the_nearest_name_is_meant() -> None:
    assert meant("bnak", ["orders", "bank"]) == "bank"
    assert meant("zzz", ["orders", "bank"]) == ""
    assert meant("bank", ["bank"]) == ""
    assert nearest("bnak", ["orders", "bank"]) == "Did you mean 'bank'?"
    assert nearest("zzz", ["orders", "bank"]) == "Known are orders, bank."
