"""Compares the store of documents with the log: folds the log anew into a scratch store, and looks for the first difference."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import msgspec

from headwater.core.errors import Cancelled, Differs
from headwater.documents.compare import compare
from headwater.documents.rebuild import check_beginning, fold_log
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.store import DocumentStore, DocumentStores
from headwater.log import Log
from headwater.log.record import Topic
from headwater.wire.progress import report

_TRIES = 5  # comparisons of a store that is being written


class DocumentVerification(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one partition, up to the offset that the store has applied. `difference`: the first one; empty where the store is
    what the log says."""

    partition: int
    applied: int
    documents: int = 0
    rows: int = 0
    index_rows: int = 0
    difference: str = ""

    def check(self) -> None:
        """Errors: `Differs` with the first difference."""
        if self.difference:
            raise Differs(
                f"The store of partition {self.partition} is not what the log says: {self.difference}",
                hint="Make it anew with `headwater doc rebuild`.",
            )


def verify_documents(
    log: Log,
    stores: DocumentStores,
    topic: Topic,
    *,
    bases: Callable[[int], AbstractContextManager[DocumentStore | None]] = lambda partition: nullcontext(),
    stopped: Callable[[], bool] = lambda: False,
) -> list[DocumentVerification]:
    """Compare every partition. `bases`: opens the base copy of one, for a log that no longer begins at 0. Blocking; reports progress.

    Errors: as `verify_partition`.
    """
    ends = [log.bounds(topic.name, number).end for number in range(topic.partitions)]
    verifications: list[DocumentVerification] = []
    for number in range(topic.partitions):
        report(sum(ends[:number]), sum(ends))
        store = stores.partition(number, topic.generation)
        with bases(number) as base:
            verifications.append(verify_partition(log, store, topic, number, base=base, stopped=stopped))
    report(sum(ends), sum(ends))
    return verifications


def verify_partition(
    log: Log,
    store: DocumentStore,
    topic: Topic,
    partition: int,
    *,
    base: DocumentStore | None = None,
    stopped: Callable[[], bool] = lambda: False,
    folder: Path | None = None,
) -> DocumentVerification:
    """Compare one partition of the store with what the log says up to its applied offset. Blocking.

    `folder`: an empty one in which what the log says is left, as a store of a SQLite file, synced and closed.
    Errors: `LogGap` where the log no longer begins at 0 and no base leads up to it; `Differs` where the store has applied more than the log
    holds; `Cancelled`; those of the log and the store.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="headwater-documents-") as directory:
            return verify_partition(log, store, topic, partition, base=base, stopped=stopped, folder=Path(directory))
    with SqliteDocumentStores(folder) as scratch:
        expected = scratch.partition(partition, topic.generation)
        with store.view() as view:
            applied = view.applied()
        end = log.bounds(topic.name, partition).end
        if applied > end:
            raise Differs(
                f"The store of {topic.name}/{partition} has applied offsets up to {applied}, and the log ends at {end}: it is older.",
                hint="Bring the newer log back, or fold the store anew with `headwater doc rebuild`.",
            )
        base_applied = check_beginning(log, topic, partition, base)
        if base_applied > applied:
            raise Differs(
                f"The store of {topic.name}/{partition} has applied offsets up to {applied}, and its base {base_applied}: it is older.",
                hint="Let it begin with the base: `headwater doc rebuild`.",
            )
        if base is not None and base_applied:
            with base.view() as view:
                expected.restore(view)
        _fold(log, expected, topic, partition, applied, stopped)
        for _ in range(_TRIES):
            # What the log says is held outside of what the store has: an error of reading, which is the store's, is told with its path.
            with ExitStack() as outside, store.view() as view:
                # Its owner has gone on: only little is left to be folded while the view is held.
                applied = view.applied()
                _fold(log, expected, topic, partition, applied, stopped)
                comparison = compare(outside.enter_context(expected.view()), view, lacks_copies=store.lacks_copies)
            # A view of Cassandra is not of one moment: what was written meanwhile is no difference.
            if not comparison.difference or log.bounds(topic.name, partition).end <= applied:
                break
        expected.checkpoint()
    return DocumentVerification(
        partition=partition,
        applied=applied,
        documents=comparison.documents,
        rows=comparison.rows,
        index_rows=comparison.index_rows,
        difference=comparison.difference,
    )


def _fold(log: Log, store: DocumentStore, topic: Topic, partition: int, end: int, stopped: Callable[[], bool]) -> None:
    for _ in fold_log(log, store, topic, partition, end):
        if stopped():
            raise Cancelled("The comparison was cancelled.", hint="Start it again.")
