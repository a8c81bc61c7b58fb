"""The interface of key stores. What the engines do is held by `KeyStoreContract`."""

from __future__ import annotations

import pytest

from headwater.journal.key_store import KeyNote, KeyStore, StoredKey


def test_it_is_an_interface() -> None:
    with pytest.raises(TypeError):
        KeyStore()  # type: ignore[abstract]


def test_a_new_key_is_active_and_a_new_note_has_applied_nothing() -> None:
    assert StoredKey("a", b"i" * 16, 1).state == "active"
    assert KeyNote("aes-256-gcm").applied == 0
