"""Servers that run: their addresses, and the means to hurt them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.core.errors import NotFound
from tools.services.beanstalkd import Beanstalkd
from tools.services.cassandra import Cassandra
from tools.services.kafka import Kafka
from tools.services.mariadb import MariaDB
from tools.services.mariadb import uri as mariadb_uri
from tools.services.mongodb import MongoDB
from tools.services.opensearch import OpenSearch
from tools.services.postgres import Postgres
from tools.services.postgres import uri as postgres_uri
from tools.services.rabbitmq import RabbitMQ
from tools.services.rabbitmq import uri as rabbitmq_uri
from tools.services.runner import Runner, of_kind
from tools.services.s3 import S3
from tools.services.s3 import uri as s3_uri
from tools.services.server import Server
from tools.services.spark import Spark
from tools.services.state import State

KINDS: dict[str, type[Server]] = {
    "beanstalkd": Beanstalkd,
    "cassandra": Cassandra,
    "kafka": Kafka,
    "mariadb": MariaDB,
    "mongodb": MongoDB,
    "opensearch": OpenSearch,
    "postgres": Postgres,
    "rabbitmq": RabbitMQ,
    "s3": S3,
    "spark": Spark,
}


@dataclass(frozen=True, slots=True)
class Running:
    """What `up` has started or found. `found` names those that ran before."""

    runner: Runner
    names: tuple[str, ...]
    found: frozenset[str] = frozenset()

    @property
    def kafka(self) -> str:
        """Kafka's bootstrap servers."""
        return self._of("kafka").address

    @property
    def cassandra(self) -> tuple[str, int]:
        """Cassandra's contact point and port."""
        host, port = self._of("cassandra").address.split(":")
        return host, int(port)

    @property
    def mongodb(self) -> str:
        """The URI of the server that speaks MongoDB's protocol, without a database."""
        return f"mongodb://{self._of('mongodb').address}"

    @property
    def opensearch(self) -> str:
        """The URI of OpenSearch."""
        return f"http://{self._of('opensearch').address}"

    @property
    def postgres(self) -> str:
        """The URI of PostgreSQL's first database, with user and password."""
        return postgres_uri(self._of("postgres").address)

    @property
    def mariadb(self) -> str:
        """The URI of a database in MariaDB, with user and password."""
        return mariadb_uri(self._of("mariadb").address)

    @property
    def rabbitmq(self) -> str:
        """The URI of RabbitMQ's first virtual host, with user and password."""
        return rabbitmq_uri(self._of("rabbitmq").address)

    @property
    def beanstalkd(self) -> tuple[str, int]:
        """beanstalkd's host and port."""
        host, port = self._of("beanstalkd").address.split(":")
        return host, int(port)

    @property
    def s3(self) -> str:
        """The endpoint of the S3 gateway; `tools.services.s3` has the user and password."""
        return s3_uri(self._of("s3").address)

    @property
    def spark_master(self) -> str:
        """The URL of the Spark cluster's master."""
        return self._of("spark").address

    def kill(self, node: str) -> None:
        """Kill one node (`broker-2`, `worker-1`, …) as a crash would. Its data stay."""
        self.runner.kill(self._server(node), node)

    def restart(self, node: str) -> None:
        """Start one node again, with its data and ports; returns when it is ready."""
        self.runner.restart(self._server(node), node)

    def pid(self, node: str) -> int | None:
        """The process id of a node; None when it does not run."""
        for name in self.names:
            known = self.runner.states().get(name)
            entry = known.node(node) if known else None
            if entry is not None and entry.process is not None and entry.alive():
                return entry.process.pid
        return None

    def _of(self, kind: str) -> State:
        for name, known in self.runner.states().items():
            if name in self.names and known.kind == kind:
                return known
        raise NotFound(f"{kind} is not among the servers asked for ({', '.join(self.names)}), or was stopped.", hint=f'Say up("{kind}").')

    def _server(self, node: str) -> Server:
        for name, known in self.runner.states().items():
            if name in self.names and known.node(node) is not None:
                return of_kind(known.kind, KINDS)(known.size)
        raise NotFound(f"None of {', '.join(self.names)} has a node {node}.", hint="See `python -m tools.services status`.")


def matching(runner: Runner, names: Sequence[str]) -> list[str]:
    """The recorded servers that these words mean: a kind means all its arrangements, no word means all."""
    known = runner.states()
    for word in names:
        if word not in known:
            of_kind(word, KINDS)  # a word that is neither a name nor a kind is a typing error
    return [name for name, each in known.items() if not names or name in names or each.kind in names]
