"""The statements of a sink's state. Each server has its own."""

from __future__ import annotations

import msgspec


class Statements(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters: pipeline and sink, and what the comment adds. A span is start, end, bucket, buckets."""

    there: str  # returns a row where the tables exist; no parameters
    create: tuple[str, ...]  # both tables, the one of `there` last; no parameters
    share_epoch: str  # with a shared lock: writers do not wait for one another, but a newer run's claim waits for their commit
    lock_epoch: str  # with an exclusive lock
    first_epoch: str  # and the epoch; changes nothing where there is one
    set_epoch: str  # the epoch first
    read: str
    count: str
    take: str  # and a span; inserts no row where it was taken before
    untake: str  # and a span
    clear: str
    owners_there: str  # returns a row where the table of owners exists; no parameters
    create_owners: str  # no parameters
    first_owner: str  # with the pipeline's name only; changes nothing where there is one
    read_owner: str  # the same
    lock_owner: str  # the same, with an exclusive lock
    set_owner: str  # the note first, and the pipeline's name only
