"""The report of a sink that stopped at a message: the message, the error, and the commands to type next."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import NotFound, Stopped
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.operating.answers import Seen
from headwater.pipeline.operating.message_view import text_of
from headwater.pipeline.operating.view import PipelineView

_LONG = 600  # characters of a message that are shown: more would push the commands off the screen


def stopped(operator: PipelineView, stands: Sequence[tuple[str, Failure]]) -> Stopped:
    """The error of a run that has ended because sinks stopped at messages: each sink with its failure."""
    (sink, first), *others = stands
    name = operator.pipeline
    shown = _shown(operator, first.offset)
    lines = [*_hinted(first), *shown, "See it, correct it, or skip it, then run again:", *_commands(operator, sink, first)]
    for behind, other in others:
        lines.append(f"{behind} stands at message {other.offset}: {other.message.partition(chr(10))[0]}")
        lines += [f"  {hint}" for hint in _hinted(other) if hint != first.hint]
        lines += _commands(operator, behind, other) if other.offset != first.offset else [_skip(name, behind, other)]
    message = f"Sink {sink} of {name} stands at message {first.offset}: {first.message}"
    return Stopped(message, hint="\n  ".join(lines))


def refused(operator: PipelineView, sink: str, failure: Failure) -> Stopped:
    """The error of a message that an operator has sent and that the sink refuses. A message that counts as taken cannot be skipped."""
    skipped = failure.offset > operator.sink(sink).position
    commands = _commands(operator, sink, failure)[: 3 if skipped else 2]
    ask = "See it, correct it, or skip it:" if skipped else "See it, correct it, then send it again:"
    message = f"Sink {sink} of {operator.pipeline} refuses message {failure.offset}: {failure.message}"
    return Stopped(message, hint="\n  ".join([*_hinted(failure), *_shown(operator, failure.offset), ask, *commands]))


def _hinted(failure: Failure) -> list[str]:
    """The hint of the failure. The report has the commands that correct a message already."""
    return [failure.hint] if failure.hint and "headwater pipeline edit" not in failure.hint else []


def _shown(operator: PipelineView, offset: int) -> list[str]:
    seen = _seen(operator, offset)
    if seen is None:
        return []
    text = text_of(seen.data)
    cut = f"{text[:_LONG]}… ({len(text):,} characters)" if len(text) > _LONG else text
    lines = [f"Message {offset}, {seen.op} of {seen.namespace}: {_printable(cut)}"]
    return lines + [f"Delivered to {copy.sink or 'every sink'} as: {_printable(text_of(copy.data)[:_LONG])}" for copy in seen.copies]


def _commands(operator: PipelineView, sink: str, failure: Failure) -> list[str]:
    name, at = operator.pipeline, failure.offset
    seen = _seen(operator, at)
    option = "--doc FILE" if seen is not None and seen.unreadable else "--set FIELD=JSON"
    return [
        f"  headwater pipeline xlog {name} show {at}",
        f"  headwater pipeline edit {name} {at} {option} --why ...",
        _skip(name, sink, failure),
    ]


def _skip(name: str, sink: str, failure: Failure) -> str:
    return f"  headwater pipeline ack {name} {sink} {failure.offset} --why ..."


def _seen(operator: PipelineView, offset: int) -> Seen | None:
    try:
        return next(operator.show(offset), None)
    except NotFound:
        return None


def _printable(text: str) -> str:
    """The text with control characters written out: a message must not drive the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
