"""The door's snapshots of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.client.backend import Backend
from headwater.journal import snapshot_operations as ask
from headwater.journal import snapshot_requests as requests
from headwater.journal.answers import DeletedSnapshots, SavedSnapshot
from headwater.journal.append_draft import payload_of
from headwater.journal.bodies import raw_payload
from headwater.journal.event import check_seq_nr
from headwater.journal.snapshot_shown import SnapshotRecord, snapshot_record


class JournalSnapshots:
    """The snapshots of one journal: what its events have made of an entity, up to a number. The store keeps the newest 10.

    A snapshot belongs to one life of the journal: a purge takes it. Errors of every call: as of `Journal`.
    """

    def __init__(self, backend: Backend, topic: str, id: str) -> None:
        self._backend, self.topic, self.id = backend, topic, id

    async def save(self, payload: Any, seq_nr: int | None = None, *, offset: int | None = None) -> SavedSnapshot:
        """Save a snapshot; return where it lies once it is durable. `payload`: bytes, text, or a value of JSON.

        `seq_nr`: the event up to which it holds; None: the last one. A snapshot of the same number gives way to it. `offset`: of that
        event's record: where the journal was purged meanwhile and has another event of that number, or none, nothing is saved.
        Errors: `NotFound` where there is no journal; `BadBounds` for a number behind its last; `Conflict` where the event does not lie at
        `offset`; `TooLarge`; `BadInput`.
        """
        payload_of(payload)  # its errors, before anything is sent
        if seq_nr is not None:
            check_seq_nr(seq_nr, "number of a snapshot")
        requests.check_place(seq_nr, offset)
        body = requests.SnapshotBody(payload=raw_payload(payload), seq_nr=seq_nr, offset=offset)
        return await self._backend.ask(ask.SNAPSHOTS_SAVE, requests.SaveSnapshot(topic=self.topic, id=self.id, body=body))

    async def load(
        self,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
    ) -> SnapshotRecord | None:
        """The newest snapshot within the bounds, both ends inclusive; None: there is none. Sees every save that is durable.

        Times are milliseconds since 1970, UTC. Errors: `BadBounds` for bounds the wrong way round.
        """
        snapshots = await self._find(True, min_seq_nr, max_seq_nr, min_timestamp, max_timestamp)
        return snapshots[0] if snapshots else None

    async def list(
        self,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
    ) -> Sequence[SnapshotRecord]:
        """The snapshots within the bounds, the newest first, without their payloads. Errors: as `load`."""
        return await self._find(False, min_seq_nr, max_seq_nr, min_timestamp, max_timestamp)

    async def delete(
        self,
        seq_nr: int | None = None,
        *,
        min_seq_nr: int | None = None,
        max_seq_nr: int | None = None,
        min_timestamp: int | None = None,
        max_timestamp: int | None = None,
        dry_run: bool = False,
    ) -> DeletedSnapshots:
        """Delete the snapshot of a number, or those within the bounds. Events stay. Errors: `BadInput` for neither and for both."""
        return await self._backend.ask(
            ask.SNAPSHOTS_DELETE,
            requests.DeleteSnapshots(
                topic=self.topic, id=self.id, seq_nr=seq_nr, min_seq_nr=min_seq_nr, max_seq_nr=max_seq_nr,
                min_timestamp=min_timestamp, max_timestamp=max_timestamp, dry_run=dry_run,
            ),
        )  # fmt: skip

    async def _find(self, newest: bool, *bounds: int | None) -> Sequence[SnapshotRecord]:
        names = ("min_seq_nr", "max_seq_nr", "min_timestamp", "max_timestamp")
        criteria: dict[str, Any] = dict(zip(names, bounds, strict=True))
        request = requests.FindSnapshots(topic=self.topic, id=self.id, newest=newest, **criteria)
        answer = await self._backend.ask(ask.SNAPSHOTS_FIND, request)
        return [snapshot_record(shown) for shown in answer.items]
