"""The lines that a worker logs of its rows: the logger `headwater.queue.rows`. Failures have the level INFO, the rest DEBUG."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from headwater.core.units import Duration

if TYPE_CHECKING:
    from headwater.client.queue_claim import Claim

_logger = logging.getLogger("headwater.queue.rows")
_KEY, _ERROR = 80, 500  # characters


def started(claim: Claim) -> None:
    if _logger.isEnabledFor(logging.DEBUG):
        _logger.debug("%s begins, attempt %d.", _row(claim), claim.attempts)


def done(claim: Claim, seconds: float) -> None:
    if _logger.isEnabledFor(logging.DEBUG):
        _logger.debug("%s is done in %.3f s.", _row(claim), seconds)


def failed(claim: Claim, error: str, wait_ms: int, raised: BaseException | None = None) -> None:
    """`raised`: what the function raised, whose traceback is shown where DEBUG is logged."""
    trace = raised if _logger.isEnabledFor(logging.DEBUG) else None
    _logger.info("%s has failed, attempt %d, again in %s: %s", _row(claim), claim.attempts, Duration(wait_ms), _line(error), exc_info=trace)


def given_up(claim: Claim, error: str) -> None:
    _logger.info("%s is given up: %s", _row(claim), _line(error))


def show_rows(*, verbose: bool) -> None:
    """Write the lines to standard error: of failures, or of every row."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    _logger.handlers[:] = [handler]
    _logger.propagate = False
    _logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _row(claim: Claim) -> str:
    key = claim.key if isinstance(claim.key, str) else repr(claim.key)
    return f"Row {claim.id} {_line(key)[:_KEY]}"


def _line(text: str) -> str:
    """Text that stays in its line, and that no control character of a row changes."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:_ERROR])
