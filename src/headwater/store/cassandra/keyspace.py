"""One keyspace: a session with the consistency that the store promises, and migrations of its tables."""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Sequence
from typing import Any

from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import BadConfig, Closed
from headwater.core.files import explaining as explaining_files
from headwater.core.ids import Ids, random_id
from headwater.core.settings import CassandraSettings
from headwater.store import Migration, Migrations, Row, Store, StoreEngine
from headwater.store.cassandra.library import connection_class, explaining, library
from headwater.store.cassandra.schema_lock import LIVES_S, LOCK_TABLE, SchemaLock

_PORT = 9042
_RECONNECT_S = 5.0  # the longest pause before a node that went down is tried again
_MIGRATION_TABLE = """
create table if not exists headwater_migration (
    part text,
    number int,
    name text,
    checksum text,
    primary key (part, number)
)
"""
_SCHEMA = re.compile(r"(create|drop|alter)\b", re.IGNORECASE)
_GUARDED = re.compile(r"\bif\s+(not\s+)?exists\b", re.IGNORECASE)


class Keyspace(Store):
    """The tables of a keyspace. Creates a missing keyspace. Reads and writes are at LOCAL_QUORUM, locks at LOCAL_SERIAL.

    It belongs to the process that opened it: a forked child gets `Closed`, and opens its own.
    """

    engine: StoreEngine = "cassandra"

    def __init__(self, settings: CassandraSettings, *, clock: Clock | None = None, ids: Ids = random_id, lock_lives: int = LIVES_S) -> None:
        """`lock_lives`: as in `SchemaLock`. Errors: `BadConfig`, `Unreachable`, `Denied`."""
        self._settings, self._clock, self._ids, self._lock_lives = settings, clock or SystemClock(), ids, lock_lives
        self.where = f"{', '.join(settings.contact_points)}, keyspace {settings.keyspace}"
        self.timeout = settings.timeout.seconds
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,47}", settings.keyspace):
            raise BadConfig(
                f"`cassandra.keyspace` cannot be {settings.keyspace!r}.",
                hint="It begins with a small letter; small letters, digits and _ follow.",
            )
        self._guard = threading.Lock()
        self._prepared: dict[str, Any] = {}
        self._closed, self._pid = False, os.getpid()
        self._cluster = self._made()
        try:
            with explaining(self.where):
                self.session = self._cluster.connect()
            self._use_keyspace()
        except BaseException:
            self._cluster.shutdown()
            raise

    # -- rows -------------------------------------------------------------------------------------------------

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        self.check_open()
        with explaining(self.where, statement):
            if not values:
                return list(self.session.execute(statement))
            return list(self.session.execute(self.prepared(statement), values))

    def prepared(self, statement: str) -> Any:
        """The statement, prepared once."""
        with self._guard:
            if statement not in self._prepared:
                self._prepared[statement] = self.session.prepare(statement)
            return self._prepared[statement]

    def close(self) -> None:
        if not self._closed and os.getpid() == self._pid:
            self._cluster.shutdown()
        self._closed = True

    # -- migrations -------------------------------------------------------------------------------------------

    def migrate(self, migrations: Migrations) -> list[Migration]:
        """As `Store.migrate`. A step is no transaction here: after a process died, the next one runs its step again from the beginning.

        Errors: also `ValueError` for a statement that cannot be run twice, and `Timeout` while another process migrates for too long.
        """
        for step in migrations.steps:
            for statement in step.statements:
                if _SCHEMA.match(statement) and not _GUARDED.search(statement):
                    raise ValueError(f"{step.number:04}_{step.name}: {statement!r} has neither `if exists` nor `if not exists`.")
        if not migrations.missing(self._noted(migrations.part), self.where):
            return []
        lock = SchemaLock(self.run, migrations.part, owner=self._ids(), clock=self._clock, lives=self._lock_lives)
        with lock.held():
            missing = migrations.missing(self._noted(migrations.part), self.where)  # another process may have been faster
            for step in missing:
                for statement in step.statements:
                    lock.renew()
                    self.run(statement)
                lock.renew()
                self.run(
                    "insert into headwater_migration (part, number, name, checksum) values (?, ?, ?, ?)",
                    (migrations.part, step.number, step.name, step.checksum),
                )
            return list(missing)

    def applied(self, part: str) -> list[int]:
        return sorted(self._noted(part))

    def _noted(self, part: str) -> dict[int, str]:
        return dict(self.run("select number, checksum from headwater_migration where part = ?", (part,)))

    # -- the session ------------------------------------------------------------------------------------------

    def _made(self) -> Any:
        driver, settings = library(), self._settings
        seconds = settings.timeout.seconds
        local = driver.policies.DCAwareRoundRobinPolicy(settings.local_dc or "")
        profile = driver.cluster.ExecutionProfile(
            load_balancing_policy=driver.policies.TokenAwarePolicy(local),
            consistency_level=driver.ConsistencyLevel.LOCAL_QUORUM,
            serial_consistency_level=driver.ConsistencyLevel.LOCAL_SERIAL,
            request_timeout=seconds,
            row_factory=driver.query.tuple_factory,
        )
        more: dict[str, Any] = {}
        if settings.username is not None:
            more["auth_provider"] = driver.auth.PlainTextAuthProvider(settings.username, str(settings.password or ""))
        if settings.ca_file is not None:
            with explaining_files(settings.ca_file, reading=True):
                more["ssl_context"] = ssl.create_default_context(cafile=str(settings.ca_file))
        with explaining(self.where):
            return driver.cluster.Cluster(
                contact_points=[_address(point) for point in settings.contact_points],
                execution_profiles={driver.cluster.EXEC_PROFILE_DEFAULT: profile},
                protocol_version=5,  # of Cassandra 4 and later; finding out would take two refused connections each time
                connection_class=connection_class(),
                connect_timeout=seconds,
                control_connection_timeout=seconds,
                # The driver's own grows to ten minutes, for which a node that is back would not be found.
                reconnection_policy=driver.policies.ExponentialReconnectionPolicy(0.5, _RECONNECT_S, max_attempts=None),
                **more,
            )

    def _use_keyspace(self) -> None:
        """Create the keyspace and our two tables. Checks first, because concurrent creations can make nodes disagree on a table."""
        name, metadata = self._settings.keyspace, self._cluster.metadata
        if name not in metadata.keyspaces:
            nodes: dict[str, int] = {}
            for host in metadata.all_hosts():
                nodes[host.datacenter] = nodes.get(host.datacenter, 0) + 1
            center = self._settings.local_dc or next(host.datacenter for host in metadata.all_hosts() if host.is_up)
            copies = self._settings.replication or (3 if nodes.get(center, 0) >= 3 else 1)
            self.run(
                f"create keyspace if not exists {name} with replication = {{'class': 'NetworkTopologyStrategy', '{center}': {copies}}}"
            )
        with explaining(self.where):
            self.session.set_keyspace(name)
        keyspace = metadata.keyspaces.get(name)
        for table, statement in (("headwater_lock", LOCK_TABLE), ("headwater_migration", _MIGRATION_TABLE)):
            if keyspace is None or table not in keyspace.tables:
                self.run(statement)

    def check_open(self) -> None:
        """Errors: `Closed` after `close`, and in a forked child."""
        if self._closed or os.getpid() != self._pid:
            raise Closed(f"The keyspace {self._settings.keyspace} is not open in this process.", hint="Open it again.")


def _address(point: str) -> tuple[str, int]:
    """`host`, `host:port`, `[::1]:port` or a bare IPv6 address."""
    host, colon, port = point.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(port)
    return point.strip("[]"), _PORT
