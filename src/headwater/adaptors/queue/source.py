"""Claiming rows: what is claimed becomes messages, and is done once they are durable in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from headwater.adaptors.pieces import PieceBuffer, decoded_any
from headwater.adaptors.queue.adaptor import QUEUES, QueueAdaptor
from headwater.adaptors.queue.connection import ClaimedQueueRow, QueueConnection, looked_up
from headwater.adaptors.queue.leases import LeaseExtension
from headwater.core.errors import NotFound, TooLarge
from headwater.core.ids import random_id
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.message import DEFAULT_ID, Message, Mode
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import LONGEST, Piece, SourceAdaptor
from headwater.pipeline.values import Decimals
from headwater.queue.row import BINARY, Row

_PIECE = 4 << 20  # bytes
_FIRST = 100  # rows that are claimed at first, when nothing is known of their length
_WAIT = 700  # milliseconds that a claim waits for a row
_GROWS = 8  # the most that data may grow in a record
_ID, _DATA = DEFAULT_ID[0], "data"


class TakenRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that the log holds, and that may not be done yet: its token, and what tells whether it is the same when it comes again."""

    token: str
    id: int
    date: int  # its process date: a run of a schedule, and a merge, have another one
    digest: str

    @classmethod
    def of(cls, claimed: ClaimedQueueRow) -> TakenRow:
        row = claimed.row
        return cls(claimed.token, row.id, row.process_date, blake2b(row.data, digest_size=8).hexdigest())

    @property
    def content(self) -> tuple[int, int, str]:
        """What is the same when the row comes again, and no put has changed it."""
        return self.id, self.date, self.digest


class QueueSource(SourceAdaptor[QueueAdaptor]):
    """One queue. A position is the rows of the last pieces, which may not be done yet."""

    def check(self, chosen: Namespaces) -> list[str]:
        with self._connected(chosen) as connection:
            connection.check_claim()
            return [connection.described()]

    def locations(self, chosen: Namespaces) -> list[Location]:
        with self._connected(chosen) as connection:
            return [Location(QUEUES, connection.identity())]

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        """Rows as they become due. An empty piece says that none is due now."""
        adaptor = self.adaptor
        lease, worker = int(adaptor.lease), f"pipeline-{random_id()}"
        with self._connected(chosen) as connection, LeaseExtension(connection, lease) as leases:
            # All of both are in the log. `finished`: done is said of them with the next call. `lost`: too late, and they come again.
            finished = [] if not cursor else msgspec.convert(cursor, list[TakenRow])
            lost, most, wait = list[TakenRow](), min(_FIRST, adaptor.batch), 0
            while not stopped() and not connection.displaced:
                claims, stale = connection.claim(
                    most, lease=lease, wait=wait, group=adaptor.group, worker=worker, done=[row.token for row in finished]
                )
                lost, finished = [*lost, *_among(finished, stale)], []
                if not claims:
                    if lost and not connection.due():
                        lost = []  # somebody else has finished them
                    yield Piece(position=_position(lost))
                    wait = _WAIT
                    continue
                wait = 0
                leases.begin([claim.token for claim in claims])
                if lost:
                    claims, lost, finished = _apart(claims, lost)
                if claims:
                    size = sum(len(claim.row.data) for claim in claims)
                    most = max(1, min(adaptor.batch, most * 4, int(_PIECE * len(claims) / max(1, size))))
                while claims:
                    piece, taken, claims = self._piece(claims, [*lost, *finished], connection)
                    yield piece
                    finished += taken  # the caller asks for more: what was given is durable
                    if claims:
                        leases.done([row.token for row in finished])
                        lost, finished = [*lost, *_among(finished, connection.done([row.token for row in finished]))], []
                leases.end()
            if finished:
                connection.done([row.token for row in finished])

    def _piece(
        self, claims: Sequence[ClaimedQueueRow], earlier: Sequence[TakenRow], connection: QueueConnection
    ) -> tuple[Piece, list[TakenRow], list[ClaimedQueueRow]]:
        """The next piece, its rows, and the claims behind it. Errors: `TooLarge` for a row that no record can hold, which stays."""
        gathered, taken = PieceBuffer(_PIECE), list[TakenRow]()
        for claimed in claims:
            row = claimed.row
            message, wrong = message_of(row, self.adaptor.queue, self.adaptor.decimals)
            if len(row.data) * _GROWS > LONGEST and (length := len(values.store(message.data))) > LONGEST:
                if taken:
                    break
                connection.release([claim.token for claim in claims])
                raise TooLarge(
                    f"The row {row.id} of the queue {self.adaptor.queue} has {length} bytes, and a record of the log at most {LONGEST}: it "
                    "stays in the queue.",
                    hint="Cancel it, or let a worker process it; then run again.",
                )
            if gathered.full:
                break
            gathered.add(message, wrong, size=len(row.data))
            taken.append(TakenRow.of(claimed))
        return gathered.piece(_position([*earlier, *taken])), taken, list(claims[len(taken) :])

    def _connected(self, chosen: Namespaces) -> QueueConnection:
        """Errors: `UnknownQueue`; `NotFound` for a directory that is not there, and where the namespaces leave the queue out."""
        name = self.adaptor.queue
        if name not in chosen:
            raise NotFound(
                f"The namespace {chosen} does not match {name}, the only one of this source.",
                hint="Leave out the source's namespace: it is the queue's name.",
            )
        connection = looked_up(self.adaptor)
        if connection is None:
            raise NotFound(
                f"There is no data directory {self.adaptor.located()}.", hint="Name the one that `headwater serve --data` was given."
            )
        try:
            connection.found()
        except BaseException:
            connection.close()
            raise
        return connection


def message_of(row: Row, queue: str, decimals: Decimals) -> tuple[Message, str]:
    """A row as a message: its data, with the key as the id where they have none. Data that are no object are the field `data`.

    And why it cannot be read as `decimals` says; empty where it can.
    """
    content, wrong = (row.data, "") if row.form == BINARY else decoded_any(row.data, decimals)
    data = dict(content) if isinstance(content, dict) else {} if content is None else {_DATA: values.extended(content)}
    try:
        key: Any = row.key.decode()
    except UnicodeDecodeError:
        key = values.extended(row.key)
    return Message(queue, data if _ID in data else {_ID: key, **data}, timestamp=row.insertion_date, mode=Mode.SYNC), wrong


def _among(rows: Sequence[TakenRow], tokens: Sequence[str]) -> list[TakenRow]:
    wanted = set(tokens)
    return [row for row in rows if row.token in wanted]


def _apart(claims: Sequence[ClaimedQueueRow], lost: Sequence[TakenRow]) -> tuple[list[ClaimedQueueRow], list[TakenRow], list[TakenRow]]:
    """The claims without those that the log has, the lost rows that did not come again, and those that did, by their new claims."""
    lost_contents = {row.content for row in lost}
    rows = {claim.token: TakenRow.of(claim) for claim in claims}
    again = {token: row for token, row in rows.items() if row.content in lost_contents}
    contents = {row.content for row in again.values()}
    return (
        [claim for claim in claims if claim.token not in again],
        [row for row in lost if row.content not in contents],
        list(again.values()),
    )


def _position(rows: Sequence[TakenRow]) -> Any:
    return msgspec.to_builtins(list(rows)) or None
