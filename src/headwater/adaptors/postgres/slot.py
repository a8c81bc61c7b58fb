"""The replication slot: whether it can be used, and whether it still has the changes behind a cursor."""

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
    """The confirmed LSN of a slot; None where it does not exist. Errors: `BadConfig` for one that cannot send this database's changes."""
    known = session.ask(_SLOT, (slot,))
    if not known:
        return None
    ((at, plugin, database, ours, status),) = known
    if plugin != "pgoutput":
        raise BadConfig(f"The slot {slot} uses {plugin}, not pgoutput.", hint=OWN)
    if not ours:  # slots of all databases share their names
        raise BadConfig(f"The slot {slot} belongs to the database {database}.", hint=OWN)
    if status == "lost":
        raise BadConfig(
            f"The server has removed WAL that the slot {slot} needed: it sends no changes any more.",
            hint=f"Drop it, and the next run creates a new one: SELECT pg_drop_replication_slot('{slot}')",
        )
    return str(at)


def created_slot(session: PostgresSession, slot: str) -> str:
    """The confirmed LSN of a slot, which is created if it is missing. Errors: `BadConfig`, `Forbidden`."""
    at = slot_position(session, slot)
    if at is None:
        may_replicate(session)
        at = str(session.one("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)))
    return at


def check_cursor(session: PostgresSession, slot: str, at: int) -> None:
    """Errors: `OffsetGone` where the slot no longer has the changes behind an LSN."""
    known = session.ask("SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,))
    hint = f"Begin the copy anew. {OWN}"
    if not known:
        raise OffsetGone(f"The replication slot {slot} is gone, and with it the changes since the cursor.", hint=hint)
    ((stands, status),) = known
    if status == "lost":
        raise OffsetGone(
            f"The server has removed WAL that the replication slot {slot} needed.", hint="Raise max_slot_wal_keep_size. " + hint
        )
    if lsn(stands) > at:
        raise OffsetGone(
            f"The replication slot {slot} is at {stands}, beyond the cursor {lsn_text(at)}: changes between are gone.", hint=hint
        )
