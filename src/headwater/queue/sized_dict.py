"""A dict that knows how many bytes its values take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class SizedDict(dict[K, V]):
    """Counts the bytes of what is set, deleted and popped; a step costs the same however much it holds. Other ways to change it are not
    counted, and not used."""

    __slots__ = ("_size_of", "bytes")

    def __init__(self, size_of: Callable[[V], int]) -> None:
        """`size_of`: the bytes of a value, which never change."""
        super().__init__()
        self._size_of = size_of
        self.bytes = 0

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            self.bytes -= self._size_of(self[key])
        self.bytes += self._size_of(value)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self.bytes -= self._size_of(self[key])
        super().__delitem__(key)

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, default: V | T, /) -> V | T: ...
    def pop(self, key: K, /, *default: T) -> V | T:
        if key in self:
            value = super().pop(key)
            self.bytes -= self._size_of(value)
            return value
        if not default:
            raise KeyError(key)
        return default[0]


def text_size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
