"""Whether the rule of claims (`headwater.log.epochs`) holds for a topic of journals.

It holds for topics of headwater's own on Kafka. The embedded log refuses a stale append itself. Topics that others write, too, have no
claims: a header that looks like one is then just another's header, and must not make everybody's later records count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.log import Log
from headwater.log.epochs import Epochs, Kind
from headwater.log.record import Header, Record, Topic

_PART = "journal"


def has_claims(log: Log, topic: Topic | str) -> bool:
    """Whether records of a topic count by their claims. Errors: `UnknownTopic`; those of the log."""
    if log.engine == "embedded":
        return False
    return (log.topic(topic) if isinstance(topic, str) else topic).settings.owner == _PART


def epochs_from(epoch: int, *, claimed: bool) -> Epochs:
    """The rule for a partition whose epoch is `epoch`; one that lets every record count where there are no claims."""
    return Epochs(epoch) if claimed else _EveryRecord()


class _EveryRecord(Epochs):
    """Lets every record count."""

    __slots__ = ()

    def admits(self, record: Record) -> bool:
        return True

    def kind(self, empty: bool, headers: Sequence[Header], offset: int) -> Kind:
        return Kind.COUNTED
