"""Answers to lines of which each is done by itself: which of them another process has to do, and its answers in their places."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import HeadwaterError, NotOwner, OutcomeUnknown
from headwater.wire.problems import encoded, problem_in, problem_of

_CODE = NotOwner.code.encode()


def lines_elsewhere(answers: Sequence[bytes]) -> dict[str, list[int]]:
    """The numbers of the lines that others have to do, by the addresses of these."""
    found: dict[str, list[int]] = {}
    for number, answer in enumerate(answers):
        problem = problem_in(answer) if _CODE in answer else None
        if problem is not None and problem.code == NotOwner.code and problem.address.startswith(("http://", "https://")):
            found.setdefault(problem.address, []).append(number)
    return found


def refused_lines(error: HeadwaterError, count: int) -> list[bytes]:
    """The answers to so many lines that were refused together."""
    return [encoded(problem_of(error, ""))] * count


def answered_lines(body: bytes, count: int) -> list[bytes]:
    """The answers in a body to so many lines."""
    answers = body.splitlines()
    if len(answers) == count:
        return answers
    error = OutcomeUnknown(
        f"The owner has answered {count} lines with {len(answers)}; they may have been done or not.",
        hint="Read what is there before sending them again.",
    )
    return refused_lines(error, count)
