"""Idempotency keys of journals with several places, because their topic grew: a key may have been used in an older place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.journal.idempotency import FirstAnswer, KeyIndex

OlderKeys = Callable[[str], Sequence[tuple[KeyIndex, int]]]
"""The keys of the older places of a journal, each with the end of its partition."""


class GrownKeys(KeyIndex):
    """As `KeyIndex`, of the newest place, which is `keys`, and of the older ones. Belongs to one thread."""

    def __init__(self, keys: KeyIndex, older: OlderKeys) -> None:
        self._keys, self._older = keys, older

    def answer(self, id: str, key: str, digest: str, end: int, owner: int = 0) -> FirstAnswer | None:
        answer = self._keys.answer(id, key, digest, end, owner)
        if answer is not None:
            return answer
        for older, until in self._older(id):
            if (answer := older.answer(id, key, digest, until)) is not None:
                return answer
        return None

    def forget(self) -> None:
        """As `KeyIndex.forget`: nobody appends to the older places any more."""
        self._keys.forget()
