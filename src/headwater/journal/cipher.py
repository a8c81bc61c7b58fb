"""Ciphers: how the payloads of a topic are encrypted.

A topic names its cipher, and every entity (a journal of a topic) has data keys of its own. A cipher knows neither: it gets a key, bytes,
and the associated data that say where these bytes belong.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from headwater.core.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Randomness = Callable[[int], bytes]
"""So many bytes that nobody can guess."""
USUAL = "aes-256-gcm"


class NotAuthentic(Exception):
    """The bytes were sealed with another key, for another place, or are damaged. Nothing of them is returned."""


class KeyedCipher(ABC):
    """A cipher with one key. Safe for several threads.

    Guarantees: `open` returns what `seal` was given, or raises `NotAuthentic`; sealed bytes say nothing about what they hold but its
    length; sealing the same bytes twice gives different ones; associated data are not kept, and have to be the same for both calls.
    """

    @abstractmethod
    def seal(self, data: bytes, associated: bytes) -> bytes:
        """The data, encrypted and authenticated together with `associated`."""

    @abstractmethod
    def open(self, sealed: bytes, associated: bytes) -> bytes:
        """What was sealed. Errors: `NotAuthentic`."""


class Cipher(ABC):
    """A way to encrypt. `code` is its number in envelopes: it never gets another meaning. `key_size`: bytes of a key."""

    name: ClassVar[str]
    code: ClassVar[int]
    key_size: ClassVar[int]

    @abstractmethod
    def with_key(self, key: bytes) -> KeyedCipher:
        """The cipher with a key of `key_size` bytes. Errors: `ValueError` for one of another size."""


class AesGcm(Cipher):
    """AES-256-GCM (NIST SP 800-38D) with a random nonce of 96 bits, which stands before what it seals; the tag of 128 bits stands behind.

    A key seals up to 2^32 payloads before two nonces are the same with a probability of 2^-32: no entity has as many.
    """

    name = USUAL
    code = 1
    key_size = 32

    def __init__(self, random: Randomness = os.urandom) -> None:
        self._random = random

    def with_key(self, key: bytes) -> KeyedCipher:
        if len(key) != self.key_size:
            raise ValueError(f"A key of {self.name} has {self.key_size} bytes, not {len(key)}.")
        return _AesGcmKey(library()(key), self._random)


_NONCE = 12
_TAG = 16


class _AesGcmKey(KeyedCipher):
    __slots__ = ("_keyed", "_random")

    def __init__(self, keyed: AESGCM, random: Randomness) -> None:
        self._keyed, self._random = keyed, random

    def seal(self, data: bytes, associated: bytes) -> bytes:
        # A nonce is drawn when it is needed: of a stock, the copies of a cloned machine or process would use the same ones.
        nonce = self._random(_NONCE)
        return nonce + self._keyed.encrypt(nonce, data, associated)

    def open(self, sealed: bytes, associated: bytes) -> bytes:
        if len(sealed) < _NONCE + _TAG:
            raise NotAuthentic
        from cryptography.exceptions import InvalidTag

        try:
            return self._keyed.decrypt(sealed[:_NONCE], sealed[_NONCE:], associated)
        except InvalidTag:
            raise NotAuthentic from None


_CIPHERS: dict[str, Cipher] = {AesGcm.name: AesGcm()}


@cache
def library() -> type[AESGCM]:
    """The library's AES-GCM. Errors: `Unsupported` where it is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise Unsupported(
            f"Encrypted journals need the package cryptography: {error}.", hint="Install it: `pip install 'headwater[cipher]'`."
        ) from error
    return AESGCM


def cipher_named(name: str) -> Cipher:
    """A cipher by its name. Errors: `BadInput`."""
    cipher = _CIPHERS.get(name)
    if cipher is None:
        raise BadInput(f"There is no cipher {name!r:.40}.", hint=f"Use {', '.join(_CIPHERS)}.")
    return cipher


def cipher_with(code: int) -> Cipher | None:
    """A cipher by its number in envelopes; None: a later headwater's."""
    return next((cipher for cipher in _CIPHERS.values() if cipher.code == code), None)
