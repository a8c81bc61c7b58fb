"""What a sink does with a message that it refuses."""

from __future__ import annotations

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.core.units import Duration


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Stop the sink at exactly this message and keep the error; an operator decides. The default."""


class DeadLetter(msgspec.Struct, frozen=True, tag=True):
    """Put the message aside with its error and go on; see `headwater pipeline dead`. `most`: stop after so many that wait there."""

    most: int = 1000

    def __post_init__(self) -> None:
        at_least(self.most, 1, "DeadLetter.most")


class Retry(msgspec.Struct, frozen=True, tag=True):
    """Try it again, waiting `backoff` before the first time and twice as long each time after; then do what `then` says."""

    times: int = 3
    backoff: Duration | str = Duration(1000)  # text is read at once: `wait` has what it means
    then: Stop | DeadLetter = Stop()

    def __post_init__(self) -> None:
        at_least(self.times, 1, "Retry.times")
        if isinstance(self.backoff, str):  # as people write it
            msgspec.structs.force_setattr(self, "backoff", _duration(self.backoff))
        if not isinstance(self.backoff, Duration):  # a number has no unit: it may be meant as seconds or milliseconds
            raise BadConfig(f"Retry.backoff cannot be {self.backoff!r}.", hint='Write it as text, with its unit, such as "250ms" or "1s".')
        at_least(self.backoff, 0, "Retry.backoff")
        if not isinstance(self.then, Stop | DeadLetter):
            raise BadConfig(f"Retry.then cannot be {self.then!r}.", hint="Give Stop() or DeadLetter().")

    def wait(self, tried: int) -> float:
        """The seconds to wait before the next try, after `tried` ones."""
        assert isinstance(self.backoff, Duration)
        return self.backoff.seconds * float(2 ** (tried - 1))


OnError = Stop | DeadLetter | Retry


def retry(times: int = 3, backoff: str = "1s", then: Stop | DeadLetter | None = None) -> Retry:
    """`Retry` with its wait as text."""
    return Retry(times, _duration(backoff), Stop() if then is None else then)


def at_least(value: object, least: int, name: str) -> int:
    """The value. Errors: `BadConfig` for what is no whole number from `least` on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadConfig(f"{name} cannot be {value!r}.", hint=f"Give a whole number from {least}.")
    return value


def _duration(text: str) -> Duration:
    try:
        return Duration.parse(str(text))
    except BadInput as error:
        raise BadConfig(f"{text!r} is no time to wait.", hint="Write a number and its unit, such as 250ms or 1s.") from error
