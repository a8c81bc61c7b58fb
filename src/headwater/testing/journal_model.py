"""A model of the journals of one partition: every record in order, told as plainly as the rules are. Folds and stores must equal it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headwater.core.errors import Differs
from headwater.journal.action import ActionRecord, Append, Delete, Purge


@dataclass
class ModelJournal:
    """A journal in its present life. `events`: (number, offset of the Append) in the order of the log."""

    first: ActionRecord
    seq_nr: int
    delete_to: int
    offset: int
    timestamp: int
    expire_after: int | None
    appended: int  # timestamp of the newest Append
    events: list[tuple[int, int]] = field(default_factory=list)

    def visible(self, policy: Literal["first", "last", "fail"] = "first") -> list[tuple[int, int]]:
        """The events that a read gives, by number. Errors: `Differs` where the policy is "fail" and two have one number."""
        chosen: dict[int, int] = {}
        for number, offset in self.events:
            if not self.delete_to < number <= self.seq_nr:  # the range of an Append may leave events of its own out
                continue
            if number in chosen and policy == "fail":
                raise Differs(f"Offsets {chosen[number]} and {offset} both hold event {number}.")
            if number not in chosen or policy == "last":
                chosen[number] = offset
        return sorted(chosen.items())


class JournalModel:
    """All journals of a partition. Give it each record once, in order."""

    def __init__(self) -> None:
        self.journals: dict[str, ModelJournal] = {}

    def add(self, record: ActionRecord, numbers: tuple[int, ...] = (), expire_after: int | None = None) -> None:
        """Takes the next record. `numbers`, `expire_after`: of an Append's events and body."""
        action, journal = record.action, self.journals.get(record.id)
        if isinstance(action, Append):
            if journal is None:  # numbers below the first one were never there
                journal = ModelJournal(record, 0, action.first - 1, 0, 0, None, 0)
                self.journals[record.id] = journal
            journal.seq_nr = max(journal.seq_nr, action.last)
            journal.events += [(number, record.offset) for number in numbers]
            journal.expire_after, journal.appended = expire_after, record.timestamp
        elif journal is None:
            return  # a Delete or Purge of what is not there does nothing
        elif isinstance(action, Delete):
            journal.delete_to = max(journal.delete_to, min(action.to, journal.seq_nr))
        elif isinstance(action, Purge):
            del self.journals[record.id]
            return
        else:
            return  # a Mark
        journal.offset, journal.timestamp = record.offset, record.timestamp
