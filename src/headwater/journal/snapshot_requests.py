"""What is asked of the snapshots of a journal: the requests of the operations."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headwater.core.errors import BadInput
from headwater.journal.event import check_seq_nr
from headwater.journal.requests import JournalRequest
from headwater.journal.snapshot import SnapshotCriteria
from headwater.wire import json
from headwater.wire.operation import DryRun, described

_FORMS = 'A snapshot is such as {"payload": {"eur": 50}, "seq_nr": 3}.'
_TIME = "ISO 8601 with its zone, or milliseconds since 1970."


class SnapshotBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A snapshot. `payload`: JSON; text; or {"$binary": base64}. `seq_nr`: the event up to which it holds; left out, the last one.
    `offset`: of that event's record, so that nothing is saved where another life of the journal has the number by now."""

    payload: msgspec.Raw
    seq_nr: int | None = None
    offset: int | None = None


_body = msgspec.json.Decoder(SnapshotBody)


def read_snapshot_body(body: bytes) -> SnapshotBody:
    """Errors: `BadInput`."""
    try:
        return _body.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise json.unreadable(error, SnapshotBody.__struct_fields__, forms=_FORMS) from None


def send_snapshot(body: SnapshotBody) -> bytes:
    """The JSON of a body, without what is left out."""
    fields: dict[str, Any] = {"payload": body.payload}
    numbers = {"seq_nr": body.seq_nr, "offset": body.offset}
    return json.encode(fields | {name: number for name, number in numbers.items() if number is not None})


class SaveSnapshot(JournalRequest, frozen=True, kw_only=True):
    """The snapshot of the body."""

    body: SnapshotBody | None = None

    def check(self) -> None:
        super().check()
        if self.body is not None and self.body.seq_nr is not None:
            check_seq_nr(self.body.seq_nr, "number of a snapshot")
        if self.body is not None:
            check_place(self.body.seq_nr, self.body.offset)


def check_place(seq_nr: int | None, offset: int | None) -> None:
    """Errors: `BadInput` for an offset that is none, or that says of no event where it lies."""
    if offset is None:
        return
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise BadInput(f"{offset!r:.40} is no offset.", hint="Give that of an event, as `append` and `read` return it.")
    if seq_nr is None:
        raise BadInput("An offset needs the number of its event.", hint="Give seq_nr, too.")


class SnapshotsRequest(JournalRequest, frozen=True, kw_only=True):
    """Which snapshots."""

    min_seq_nr: Annotated[int | None, described("Of this number or above it.", least=1)] = None
    max_seq_nr: Annotated[int | None, described("Of this number or below it.", least=1)] = None
    min_timestamp: Annotated[int | None, described(f"Saved then or later. {_TIME}", time=True)] = None
    max_timestamp: Annotated[int | None, described(f"Saved then or earlier. {_TIME}", time=True)] = None

    def check(self) -> None:
        super().check()
        self.criteria().check()

    def criteria(self) -> SnapshotCriteria:
        return SnapshotCriteria(
            min_seq_nr=self.min_seq_nr, max_seq_nr=self.max_seq_nr, min_timestamp=self.min_timestamp, max_timestamp=self.max_timestamp
        )


class FindSnapshots(SnapshotsRequest, frozen=True, kw_only=True):
    """And whether all of them."""

    newest: Annotated[bool, described("true: the newest one alone, with its payload.")] = False


class DeleteSnapshots(SnapshotsRequest, frozen=True, kw_only=True):
    """And whether that is tried alone."""

    seq_nr: Annotated[int | None, described("The one of this number.", least=1)] = None
    dry_run: DryRun = False

    def check(self) -> None:
        super().check()
        if self.seq_nr is not None:
            check_seq_nr(self.seq_nr, "number of a snapshot")
            if not super().criteria().all:
                raise BadInput("Snapshots are deleted by seq_nr or by bounds, not by both.", hint="Give one of them.")
        elif super().criteria().all:
            raise BadInput("Which snapshots?", hint="Give seq_nr, or bounds: min_seq_nr=1 deletes all of them.")

    def criteria(self) -> SnapshotCriteria:
        if self.seq_nr is None:
            return super().criteria()
        return SnapshotCriteria(min_seq_nr=self.seq_nr, max_seq_nr=self.seq_nr)
