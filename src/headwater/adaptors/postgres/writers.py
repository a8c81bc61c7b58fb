"""Transactions that have written to tables and are still open: a copy that begins now does not see their rows.

A change is sent only where its table was published when the row was written, and `ALTER PUBLICATION` waits for nobody: the rows of a
transaction that was open then are in no change. They must be in the copy. The same holds for a transaction whose commit is in the WAL, so
behind no cursor, and which still waits for a synchronous standby: no other transaction sees it yet. Both hold a lock on the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep

import msgspec

from headwater.adaptors.postgres.connection import PostgresSession
from headwater.core.errors import Timeout

PATIENCE = 60.0  # seconds for open transactions to end, and for a slot to be created
_POLL = 0.05
# A transaction keeps its locks until it has ended for everybody else, a prepared one (PREPARE TRANSACTION) without a process. It keeps its
# virtual id when it is prepared. VACUUM and ANALYZE hold ShareUpdateExclusiveLock: they change no row.
_TOLD = """
SELECT DISTINCT l.virtualtransaction, coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.usename, p.owner, '?'),
       coalesce(to_char(coalesce(a.xact_start, p.prepared) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS UTC'), '?')
FROM pg_locks l
LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction
LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
"""
_WRITERS = f"""{_TOLD}
  AND l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  AND (l.relation = ANY(%s::oid[]) OR l.relation IN (SELECT t.relid FROM unnest(%s::oid[]) o, pg_partition_tree(o) t))
ORDER BY 5
"""
_EVERYBODY = f"{_TOLD} AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' ORDER BY 5"


class OpenTransaction(msgspec.Struct, frozen=True):
    virtual: str  # its virtual id
    process: int  # 0 for a prepared one
    prepared: str  # the name of a prepared one
    user: str
    since: str

    def __str__(self) -> str:
        who = f"prepared transaction {self.prepared!r}" if not self.process else f"transaction of process {self.process}"
        return f"the {who} (user {self.user}, since {self.since})"

    @property
    def ending(self) -> str:
        """The statement that ends it."""
        if self.process:
            return f"SELECT pg_terminate_backend({self.process})"
        return f"ROLLBACK PREPARED '{self.prepared.replace(chr(39), chr(39) * 2)}'"


def wait_for_writers(session: PostgresSession, oids: Sequence[int]) -> None:
    """Wait until every transaction has ended that has written to these tables or their partitions. Does not wait for later ones.

    Errors: `Timeout`, which names who is waited for.
    """
    deadline = monotonic() + PATIENCE
    parameters = (list(oids), list(oids))
    waited = {transaction.virtual for transaction in _asked(session, _WRITERS, parameters)}
    while waited:
        transactions = [transaction for transaction in _asked(session, _WRITERS, parameters) if transaction.virtual in waited]
        if not transactions:
            return
        if monotonic() >= deadline:
            raise waiting_for("The copy waits for transactions that have written to its tables", transactions)
        sleep(_POLL)


def everybody(session: PostgresSession) -> list[OpenTransaction]:
    """The transactions of all databases that have written something. A slot is created when those have ended that were open then."""
    return _asked(session, _EVERYBODY)


def waiting_for(problem: str, transactions: Sequence[OpenTransaction]) -> Timeout:
    return Timeout(
        f"{problem}: {', '.join(map(str, transactions[:3]))}{f' and {len(transactions) - 3} more' if len(transactions) > 3 else ''}.",
        hint=f"Let them end, or end them: {'; '.join(transaction.ending for transaction in transactions[:3])}",
    )


def _asked(session: PostgresSession, question: str, parameters: object = None) -> list[OpenTransaction]:
    return [OpenTransaction(*row) for row in session.ask(question, parameters)]
