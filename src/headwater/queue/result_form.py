"""Results of rows as JSON, and as values of Python. Bytes are `{"$binary": base64}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from headwater.core.errors import BadInput
from headwater.queue.answers import ShownResult
from headwater.queue.handling import GiveUp
from headwater.queue.json_form import data_bytes, data_of, read_data, show_date, shown_data
from headwater.queue.requests import DoneRow
from headwater.queue.row import BINARY
from headwater.queue.values import RowResult

_encode = msgspec.json.Encoder(decimal_format="number").encode
_HINT = "Give what JSON can hold, or bytes."


def result_bytes(value: object) -> RowResult:
    """The result that was given, as it is stored: bytes as they are, everything else as JSON.

    Errors: `BadInput` for what would come back as something else: a number that is none, a set, an object that is no JSON.
    """
    data, form = data_bytes(value, "result")
    if form != BINARY:
        _check(value)
        try:
            data_of(data, form)
        except RecursionError:
            raise BadInput("The result is nested too deeply.", hint=_HINT) from None
    return RowResult(data, form)


def _check(value: object) -> None:
    """Errors: `BadInput`. The value has been written, so that it does not contain itself."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, float):
            if not isfinite(part):
                raise BadInput(f"The result holds {part}, which JSON cannot hold.", hint="Give a number or None for it.")
        elif isinstance(part, set | frozenset):
            raise BadInput("The result holds a set, which JSON cannot hold.", hint="Give a list.")
        elif isinstance(part, dict):
            left.extend(part.values())
        elif isinstance(part, list | tuple):
            left.extend(part)


def done_rows(done: Sequence[str], results: Mapping[str, RowResult] | None) -> list[str | DoneRow]:
    """The done rows of a claim as they are sent."""
    if not results:
        return list(done)
    return [DoneRow(token=token, result=sent_result(results[token])) if token in results else token for token in done]


def sent_result(result: RowResult) -> msgspec.Raw:
    """A result as it is sent."""
    shown = shown_data(result.data, result.form)
    return shown if isinstance(shown, msgspec.Raw) else msgspec.Raw(_encode(shown))


def read_result(sent: msgspec.Raw) -> RowResult:
    """The result that was sent. Errors: `BadInput`."""
    try:
        bytes(sent).decode()
        return RowResult(*read_data(sent, "result"))
    except UnicodeDecodeError as error:
        raise BadInput(f"The result is not UTF-8 at byte {error.start}.", hint='Send bytes as {"$binary": base64}.') from None


def told_done(done: Sequence[str | DoneRow]) -> tuple[Sequence[str], dict[str, RowResult] | None]:
    """The tokens of done rows, and the results of those that have one. Errors: `BadInput`."""
    for token in done:
        if type(token) is not str:
            break
    else:
        return done, None  # type: ignore[return-value]
    results = {row.token: read_result(row.result) for row in done if isinstance(row, DoneRow) and bytes(row.result)}
    return [row.token if isinstance(row, DoneRow) else row for row in done], results


def show_result(id: int, result: RowResult | None) -> ShownResult:
    """A result as JSON; None: the row is not done yet."""
    if result is None:
        return ShownResult(id=id, done=False)
    return ShownResult(id=id, done=True, result=shown_data(result.data, result.form), expires=show_date(result.expires))


def result_value(shown: ShownResult) -> Any:
    """The result that was shown, as Python users see it."""
    return data_of(*read_data(shown.result if isinstance(shown.result, msgspec.Raw) else msgspec.Raw(_encode(shown.result)), "result"))


def returned_result(result: object) -> RowResult:
    """The result that a worker's function has returned. Errors: `GiveUp` for one that cannot be kept: it would be returned again."""
    try:
        return result_bytes(result)
    except BadInput as error:
        raise GiveUp(f"The function's result cannot be kept. {error.message}") from None
