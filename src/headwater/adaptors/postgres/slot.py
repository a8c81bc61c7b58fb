"""The replication slot: whether it can be used, and whether it still has what lies behind a cursor."""

from __future__ import annotations

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.pgoutput import lsn, lsn_text
from headwater.adaptors.postgres.tables import may_replicate
from headwater.core.errors import BadConfig, OffsetGone

OWN = "Give each pipeline a slot of its own: slot=..."
_SLOT = """
SELECT confirmed_flush_lsn::text, coalesce(plugin, 'physical replication'), database, database = current_database(), wal_status
FROM pg_replication_slots WHERE slot_name = %s
"""


def slot_position(session: PostgresSession, slot: str) -> str | None:
    """Where a slot stands; None where there is none. Errors: `BadConfig` for one that can never give this database's changes."""
    known = session.ask(_SLOT, (slot,))
    if not known:
        return None
    ((at, plugin, database, ours, status),) = known
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


def created_slot(session: PostgresSession, slot: str) -> str:
    """Where a slot stands, made if it is missing. Errors: `BadConfig`, `Forbidden`."""
    at = slot_position(session, slot)
    if at is None:
        may_replicate(session)
        at = str(session.one("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)))
    return at


def check_cursor(session: PostgresSession, slot: str, at: int) -> None:
    """Errors: `OffsetGone` where changes behind the place are gone."""
    known = session.ask("SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,))
    hint = "Begin the copy anew; and give each pipeline a slot of its own: slot=..."
    if not known:
        raise OffsetGone(f"The replication slot {slot} is gone, and with it the changes since the cursor.", hint=hint)
    ((stands, status),) = known
    if status == "lost":
        raise OffsetGone(
            f"The server has removed WAL that the replication slot {slot} needed.", hint="Raise max_slot_wal_keep_size. " + hint
        )
    if lsn(stands) > at:
        raise OffsetGone(
            f"The replication slot {slot} stands at {stands}, behind the cursor {lsn_text(at)}: changes between are gone.", hint=hint
        )
