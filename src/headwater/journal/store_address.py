"""Where a store of journals is: a small value that travels to other processes, Spark's among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headwater.journal.settings import JOURNAL_SECTION
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.store import JournalStore

if TYPE_CHECKING:
    from headwater.core.settings import Settings


class StoreAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Opened by `open_store`."""

    path: str = ""
    segment_size: int = 10_000


def store_address_of(settings: Settings, data: Path | None = None) -> StoreAddress:
    """Where the configured store is; `data`: the data directory, when it is another than the configured one."""
    return StoreAddress(path=str((data or settings.data) / "journals"), segment_size=JOURNAL_SECTION.of(settings).segment_size)


def open_store(address: StoreAddress) -> JournalStore:
    """Open the store at `address`."""
    return SqliteJournalStore(Path(address.path), segment_size=address.segment_size)
