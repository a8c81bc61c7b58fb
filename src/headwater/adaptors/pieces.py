"""Documents and messages gathered into pieces, and items into portions, by their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from headwater.core.errors import BadInput
from headwater.pipeline import values
from headwater.pipeline.message import Message
from headwater.pipeline.piece_size import piece_size
from headwater.pipeline.source_adaptor import Piece
from headwater.pipeline.values import Decimals

T = TypeVar("T")
_RECORD = 64  # bytes of a record of the log beside its key, which is the namespace, and its value
_FIELD = 8  # bytes that JSON needs for a field beside its name and a value: quotes, colon, comma, null


class PieceBuffer:
    """Documents (JSON text) or messages of the next piece. `most`: the bytes of a full piece."""

    def __init__(self, most: int) -> None:
        self._most = piece_size(most)
        self._clear()

    def _clear(self) -> None:
        self._values: list[bytes] = []
        self._messages: list[Message] = []
        self._bad: dict[int, str] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._values) or len(self._messages)

    @property
    def full(self) -> bool:
        return self._size >= self._most

    def exceeded_by(self, size: int) -> bool:
        """Whether there is something in it, and no room for so many bytes more."""
        return len(self) > 0 and self._size + size > self._most

    def add(self, document: bytes | Message, wrong: str = "", *, size: int = 0) -> None:
        """Add a document or a message of a size. `wrong`: why it cannot be read; it becomes a poison record."""
        if wrong:
            self._bad[len(self)] = wrong
        if isinstance(document, Message):
            self._messages.append(document)
            size += _RECORD + len(document.namespace)
        else:
            self._values.append(document)
            size = len(document)
        self._size += size

    def piece(self, position: Any, amount: int | None = None) -> Piece:
        """Everything gathered so far, with the position behind it. The buffer is empty afterwards."""
        piece = Piece(position=position, values=self._values, messages=self._messages, bad=self._bad, amount=amount)
        self._clear()
        return piece


def names_size(message: Message) -> int:
    """The bytes of a message's record beside its values: the names of fields, the namespace and the record's own.

    A server sends rows without the names of their columns, a null in a byte or a bit. As JSON they may be a hundred times as long.
    """
    return _RECORD + len(message.namespace) + sum(len(name) + _FIELD for name in message.data)


def portions(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Items in their order, as many at once as have at most so many bytes, and at least one."""
    portion: list[T] = []
    total = 0
    for item in items:
        length = size(item)
        if portion and total + length > most:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += length
    if portion:
        yield portion


def with_floats(piece: Piece) -> Piece:
    """A piece of JSON text with a float for each number that has a point or an exponent; one that no float can be is a poison record."""
    texts, bad = list(piece.values), dict(piece.bad)
    for index, text in enumerate(texts):
        if index not in bad:
            try:
                texts[index] = values.store(values.decode(text, "float"))
            except BadInput as error:
                bad[index] = error.message
    return replace(piece, values=texts, bad=bad)


def decoded_any(text: bytes, decimals: Decimals) -> tuple[Any, str]:
    """The value of JSON text, and why it cannot be read as `decimals` says; its numbers are decimals then. Errors: `BadInput`: no JSON."""
    try:
        return values.decode_any(text, decimals), ""
    except BadInput as error:
        if decimals == "decimal":
            raise
        return values.decode_any(text), error.message


def decoded(value: bytes, name: str = "value", *, decimals: Decimals = "decimal") -> tuple[dict[str, Any], str]:
    """The document that a value is, and what is wrong with it: a value that is no JSON object is kept as text, in a field of this name."""
    try:
        return values.decode(value, decimals), ""
    except BadInput as error:
        return {name: value.decode("utf-8", "backslashreplace")}, error.message
