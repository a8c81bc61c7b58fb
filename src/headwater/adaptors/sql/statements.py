"""The statements by which a sink remembers what it has taken. Each server's `sql` module gives its own."""

from __future__ import annotations

import msgspec


class Statements(msgspec.Struct, frozen=True, kw_only=True):
    """Those without a word about it are given pipeline and sink; a span is start, end, bucket, buckets."""

    there: str  # a row where the tables are there; given nothing
    create: tuple[str, ...]  # both tables, the one that `there` looks for last; given nothing
    share_epoch: str  # held with others: writers do not wait for one another, but a newer run's claim waits for their commit
    lock_epoch: str  # held alone
    first_epoch: str  # and the epoch; nothing happens where there is one
    set_epoch: str  # the epoch first
    read: str
    count: str
    take: str  # and a span; counts no row where it was taken before
    untake: str  # and a span
    clear: str
