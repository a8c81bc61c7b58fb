"""The replication slot: whether it can be used, and whether it still has the changes behind a cursor."""

from __future__ import annotations

from psycopg.errors import QueryCanceled

from headwater.adaptors.postgres import writers
from headwater.adaptors.postgres.connection import PostgresSession
from headwater.adaptors.postgres.pgoutput import lsn, lsn_text
from headwater.adaptors.postgres.tables import may_replicate
from headwater.core.errors import BadConfig, OffsetGone, Timeout

OWN = "Give each pipeline a slot of its own: slot=..."
_SLOT = """
SELECT confirmed_flush_lsn::text, coalesce(plugin, 'physical replication'), database, database = current_database(), wal_status
FROM pg_replication_slots WHERE slot_name = %s
"""


def slot_position(session: PostgresSession, slot: str) -> str | None:
    """The confirmed LSN of a slot; None where it does not exist. Errors: `BadConfig` for one that cannot send this database's changes."""
    rows = session.ask(_SLOT, (slot,))
    if not rows:
        return None
    ((at, plugin, database, ours, status),) = rows
    if plugin != "pgoutput":
        raise BadConfig(f"The slot {slot} uses {plugin}, not pgoutput.", hint=OWN)
    if not ours:  # slots of all databases share their names
        raise BadConfig(f"The slot {slot} belongs to the database {database}.", hint=OWN)
    if status == "lost":
        raise BadConfig(
            f"The server has removed WAL that the slot {slot} needed: it sends no changes any more.",
            hint=f"Drop it, and the next run creates a new one: SELECT pg_drop_replication_slot('{slot}')",
        )
    if at is None:  # perhaps by a run that was killed: the server's process does not notice before it has done
        raise Timeout(f"The slot {slot} is being created by another connection.", hint="Wait until the transactions open there have ended.")
    return str(at)


def wal_end(session: PostgresSession) -> int:
    """The LSN up to which the WAL is on disk; 0 for a standby."""
    return lsn(session.one("SELECT CASE WHEN pg_is_in_recovery() THEN '0/0' ELSE pg_current_wal_flush_lsn()::text END"))


def create_slot(session: PostgresSession, slot: str) -> str:
    """Create a slot; returns its LSN. Errors: `Forbidden`; `Timeout` where transactions stay open that the server waits for."""
    may_replicate(session)
    session.do(f"SET statement_timeout = {max(1, int(writers.PATIENCE * 1000))}")
    try:
        return str(session.one("SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,)))
    except QueryCanceled as error:
        raise writers.waiting_for(f"The server creates the slot {slot} when transactions have ended", writers.everybody(session)) from error
    finally:
        session.do("RESET statement_timeout")


def check_cursor(session: PostgresSession, slot: str, at: int, end: int) -> None:
    """`end`: of the WAL, or 0 where it is not known. Errors: `OffsetGone` where the slot no longer has the changes behind an LSN."""
    rows = session.ask("SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,))
    hint = f"Begin the copy anew: `headwater pipeline run FILE --again`. {OWN}"
    if not rows:
        raise OffsetGone(f"The replication slot {slot} is gone, and with it the changes since the cursor.", hint=hint)
    ((stands, status),) = rows
    if status == "lost":
        raise OffsetGone(
            f"The server has removed WAL that the replication slot {slot} needed.",
            hint=f"Raise max_slot_wal_keep_size, drop the slot: SELECT pg_drop_replication_slot('{slot}'). "
            "Then begin the copy anew: `headwater pipeline run FILE --again`.",
        )
    if lsn(stands) > at:
        raise OffsetGone(
            f"The replication slot {slot} is at {stands}, beyond the cursor {lsn_text(at)}: changes between are gone.", hint=hint
        )
    if at > end > 0:  # the slot would give nothing of what is committed before the cursor, and say nothing
        raise OffsetGone(
            f"The server's WAL ends at {lsn_text(end)}, before the cursor {lsn_text(at)}: it is an older copy of what was followed.",
            hint=hint,
        )
