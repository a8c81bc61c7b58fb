"""Ciphers: what is sealed is opened in its place alone."""

from __future__ import annotations

import sys

import pytest

from headwater.core.errors import BadInput, Unsupported
from headwater.journal.cipher import USUAL, AesGcm, NotAuthentic, cipher_named, cipher_with, library

KEY = bytes(range(32))


def test_what_is_sealed_is_opened_with_its_key_and_place_alone() -> None:
    keyed = AesGcm().with_key(KEY)
    for data in (b"", b"x", b"\0" * 1000):
        sealed = keyed.seal(data, b"place")
        assert keyed.open(sealed, b"place") == data
        assert len(sealed) == len(data) + 28
        for other in (AesGcm().with_key(KEY[::-1]).open, keyed.open):
            with pytest.raises(NotAuthentic):
                other(sealed, b"place" if other is not keyed.open and other.__self__ is not keyed else b"elsewhere")


def test_a_changed_byte_is_noticed_wherever_it_is() -> None:
    keyed = AesGcm().with_key(KEY)
    sealed = keyed.seal(b"hello", b"")
    for at in range(len(sealed)):
        with pytest.raises(NotAuthentic):
            keyed.open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], b"")
    for cut in range(len(sealed)):
        with pytest.raises(NotAuthentic):
            keyed.open(sealed[:cut], b"")


def test_the_same_bytes_are_sealed_differently() -> None:
    keyed = AesGcm().with_key(KEY)
    assert len({keyed.seal(b"same", b"") for _ in range(100)}) == 100


def test_it_is_the_standard_form() -> None:
    """Nonce, then what AES-256-GCM of the standard gives: test case 15 of its paper, without associated data."""
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    text = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
    )
    sealed = AesGcm(lambda count: nonce[:count]).with_key(key).seal(text, b"")
    assert sealed[:12] == nonce
    assert sealed[-16:].hex() == "b094dac5d93471bdec1a502270e3cc6c"


def test_keys_have_their_size() -> None:
    with pytest.raises(ValueError):
        AesGcm().with_key(b"short")


def test_ciphers_by_name_and_number() -> None:
    assert cipher_named(USUAL) is cipher_with(1)
    assert cipher_with(200) is None
    with pytest.raises(BadInput):
        cipher_named("rot13")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(Unsupported, match=r"headwater\[cipher\]"):
        library.__wrapped__()
