"""What is asked of a journal's writer, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import msgspec

from headwater.core.errors import NotOwner, WrongExpected
from headwater.journal.append_draft import AppendDraft, PlainDraft


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where an Append lies. `first`, `last`: the numbers of its events. `replayed`: it was there, under the same idempotency key."""

    first: int
    last: int
    partition: int
    offset: int
    replayed: bool = False


class ActionPlaced(msgspec.Struct, frozen=True, gc=False):
    """Where a Delete, a Purge or a Mark lies. `to`: the last number that a Delete removes; 0 for the others. `offset`: -1 for an erasure
    that found nothing to purge."""

    partition: int
    offset: int
    to: int = 0


class DeleteDraft(NamedTuple):
    """Remove the events of a journal up to `to`."""

    id: str
    to: int


class PurgeDraft(NamedTuple):
    """Remove a journal."""

    id: str


class ExpireDraft(NamedTuple):
    """Remove a journal if it has expired by `today`, and no call before this one has changed it."""

    id: str
    today: date


class EraseDraft(NamedTuple):
    """Remove a journal, and destroy its keys. `who`, `why`: for the audit."""

    id: str
    who: str = ""
    why: str = ""


class MarkDraft(NamedTuple):
    """Put a mark into the partition of a journal."""

    id: str
    mark: str


Draft = PlainDraft | AppendDraft | DeleteDraft | PurgeDraft | ExpireDraft | EraseDraft | MarkDraft


class Condition(NamedTuple):
    """What an Append asks for beside its events. `expected`: the last number of the journal. `key`, `digest`: its idempotency key."""

    expected: int | None = None
    key: str = ""
    digest: str = ""


ALWAYS = Condition()
Outcome = Appended | ActionPlaced | None | BaseException
"""None: nothing was to be done, because there is no such journal."""


def wrong_expected(id: str, expected: int, last: int) -> WrongExpected:
    """The error for a journal whose last number is another one."""
    return WrongExpected(
        f"Journal {id!r:.60} ends with event {last}, not with {expected}."
        if last
        else f"There is no journal {id!r:.60}: its last number is 0.",
        hint=f"Read it from {expected + 1} on, decide again, and append with expected={last}."
        if last > expected
        else f"Append with expected={last}.",
    )


def not_exact(id: str) -> NotOwner:
    """The error for numbering and expecting in a topic that others write, too."""
    return NotOwner(
        f"Journal {id!r:.60} is written by others, too, without claims: its last number is not certain.",
        hint="Give every event its number (seq_nr) and no `expected`, or create a topic of headwater's own.",
    )


def replayed(outcome: Outcome) -> Outcome:
    """The outcome for a call that repeats the one that had this outcome."""
    return Appended(outcome.first, outcome.last, outcome.partition, outcome.offset, True) if isinstance(outcome, Appended) else outcome


def resolve(waiting: Sequence[tuple[Draft, Condition, asyncio.Future[Outcome]]], outcomes: Sequence[Outcome]) -> None:
    """Tell callers, on their event loop, what became of their calls."""
    for (_, _, future), outcome in zip(waiting, outcomes, strict=True):
        try:
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        except asyncio.InvalidStateError:
            continue  # the caller has given up; its record is appended nevertheless
