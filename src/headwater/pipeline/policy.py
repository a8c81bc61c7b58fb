"""What a sink does with a message that it refuses."""

from __future__ import annotations

import msgspec

from headwater.core.units import Duration


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Stop the sink at exactly this message and keep the error; an operator decides. The default."""


class DeadLetter(msgspec.Struct, frozen=True, tag=True):
    """Put the message aside with its error and go on; see `headwater pipeline dead`. `most`: stop after so many that wait there."""

    most: int = 1000


class Retry(msgspec.Struct, frozen=True, tag=True):
    """Try it again, waiting `backoff` before the first time and twice as long each time after; then do what `then` says."""

    times: int = 3
    backoff: Duration = Duration(1000)
    then: Stop | DeadLetter = Stop()


OnError = Stop | DeadLetter | Retry


def retry(times: int = 3, backoff: str = "1s", then: Stop | DeadLetter | None = None) -> Retry:
    """`Retry` with its wait as text."""
    return Retry(times, Duration.parse(backoff), then or Stop())
