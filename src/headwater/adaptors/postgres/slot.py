"""The replication slot: whether it can be used, and whether it still has what lies behind a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.adaptors.postgres.pgoutput import lsn, lsn_text
from headwater.adaptors.postgres.tables import may_replicate
from headwater.core.errors import BadConfig, OffsetGone

if TYPE_CHECKING:
    from headwater.adaptors.postgres.connection import Connection

OWN = "Give each pipeline a slot of its own: slot=..."
_SLOT = """
SELECT confirmed_flush_lsn::text, coalesce(plugin, 'physical replication'), database, database = current_database(), wal_status
FROM pg_replication_slots WHERE slot_name = %s
"""


def place_of(link: Connection, slot: str) -> str | None:
    """Where a slot stands; None where there is none. Errors: `BadConfig` for one that can never give this database's changes."""
    known = link.execute(_SLOT, (slot,)).fetchone()
    if known is None:
        return None
    at, plugin, database, ours, status = known
    if plugin != "pgoutput":
        raise BadConfig(f"The slot {slot} is made for {plugin}, not for pgoutput.", hint=OWN)
    if not ours:  # the names of slots are the whole server's
        raise BadConfig(f"The slot {slot} gives the changes of the database {database}.", hint=OWN)
    if status == "lost":
        raise BadConfig(
            f"The server has removed WAL that the slot {slot} needed: it gives no changes any more.",
            hint=f"Drop it, then a new one is made: SELECT pg_drop_replication_slot('{slot}')",
        )
    return str(at)


def made(link: Connection, slot: str) -> str:
    """Where a slot stands, made if it is missing. Errors: `BadConfig`, `Forbidden`."""
    at = place_of(link, slot)
    if at is None:
        may_replicate(link)
        row = link.execute("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)).fetchone()
        assert row is not None
        at = str(row[0])
    return at


def check_behind(link: Connection, slot: str, at: int) -> None:
    """Errors: `OffsetGone` where changes behind the place are gone."""
    known = link.execute("SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchone()
    hint = "Begin the copy anew; and give each pipeline a slot of its own: slot=..."
    if known is None:
        raise OffsetGone(f"The replication slot {slot} is gone, and with it the changes since the cursor.", hint=hint)
    if known[1] == "lost":
        raise OffsetGone(
            f"The server has removed WAL that the replication slot {slot} needed.", hint="Raise max_slot_wal_keep_size. " + hint
        )
    if lsn(known[0]) > at:
        raise OffsetGone(
            f"The replication slot {slot} stands at {known[0]}, behind the cursor {lsn_text(at)}: changes between are gone.", hint=hint
        )
