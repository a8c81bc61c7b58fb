"""Real servers for tests.

A test that needs them says `@pytest.mark.service("kafka", "cassandra")`, or asks for a fixture of theirs, which marks it by itself. The
first test to need a server starts it; tests in other processes find it. Servers that ran before are left running; the others are stopped
when the last test run that uses them ends. Where a server cannot be had the tests are skipped, or fail when the variable CI is set.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec
import pytest
from hypothesis import settings
from tests.examples import examples
from tools.services import Running, release, up
from tools.services.private import PrivateServers, sweep
from tools.services.process import Process, current

from headwater.core.errors import HeadwaterError, Unreachable, Unsupported

settings.register_profile("headwater", deadline=None, max_examples=examples())  # a busy machine is no reason to fail
settings.load_profile("headwater")

FIXTURES = {  # and the servers they need
    "kafka": "kafka",
    "kafka_cluster": "kafka-3",
    "cassandra": "cassandra",
    "spark_master": "spark",
    "mongodb": "mongodb",
    "opensearch": "opensearch",
    "postgres": "postgres",
    "mariadb": "mariadb",
    "rabbitmq": "rabbitmq",
    "beanstalkd": "beanstalkd",
    "s3": "s3",
}


@dataclass
class Servers:
    """What this process has asked for so far. `user` is the test run: under xdist the one that started the workers."""

    user: Process
    running: dict[str, Running | HeadwaterError] = field(default_factory=dict)

    def want(self, name: str) -> Running:
        """The running server `name`; the test is skipped, or fails, when it cannot be had. Asked once: a failure is not tried again."""
        if name not in self.running:
            kind, _, size = name.partition("-")
            try:
                self.running[name] = up(kind, brokers=int(size or 1), kept=False, quick=True, user=self.user)
            except HeadwaterError as problem:
                self.running[name] = problem
        found = self.running[name]
        return found if isinstance(found, Running) else without(name, found)


class OwnServers(PrivateServers):
    """Servers of one test's own. When they cannot be had, it is skipped or fails as with the shared ones."""

    def up(self, *kinds: str, brokers: int = 1) -> Running:
        try:
            return super().up(*kinds, brokers=brokers)
        except HeadwaterError as problem:
            without(", ".join(kinds), problem)


def without(name: str, problem: HeadwaterError) -> NoReturn:
    """A test has to do without a server. Only what lies outside of us is a reason to skip."""
    if isinstance(problem, Unreachable | Unsupported) and not os.environ.get("CI"):
        pytest.skip(f"{name} cannot be had here: {problem}")
    pytest.fail(f"{name} does not start: {problem}", pytrace=False)


SERVERS = pytest.StashKey[Servers]()


def pytest_configure(config: pytest.Config) -> None:
    if sys.platform.startswith("linux"):
        told = getattr(config, "workerinput", {}).get("headwater_user")
        config.stash[SERVERS] = Servers(msgspec.json.decode(told, type=Process) if told else current())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """xdist is about to start a worker: tell it whose servers it uses, so that they stay until the last worker has ended."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    if SERVERS in config.stash:
        node.workerinput["headwater_user"] = msgspec.json.encode(config.stash[SERVERS].user).decode()  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes a million objects that stay: the garbage collector looks at none of them, now or when tests make it run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, server in FIXTURES.items():
            if fixture in getattr(item, "fixturenames", ()) and server not in needed(item):
                item.add_marker(pytest.mark.service(server))
        if "private_servers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.service())


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name in needed(item):
        _servers(item.config).want(name)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SERVERS in config.stash and not hasattr(config, "workerinput"):
        release(config.stash[SERVERS].user)


def needed(item: pytest.Item) -> list[str]:
    return [name for mark in item.iter_markers("service") for name in mark.args]


def _servers(config: pytest.Config) -> Servers:
    if SERVERS not in config.stash:
        without("a server", Unsupported("Servers are started on Linux only."))
    return config.stash[SERVERS]


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> str:
    """Bootstrap servers of a Kafka with one broker. Others use it too: choose topic names of your own, and do not stop it."""
    return _servers(pytestconfig).want("kafka").kafka


@pytest.fixture(scope="session")
def kafka_cluster(pytestconfig: pytest.Config) -> str:
    """Bootstrap servers of a Kafka with three brokers, shared as well."""
    return _servers(pytestconfig).want("kafka-3").kafka


@pytest.fixture(scope="session")
def cassandra(pytestconfig: pytest.Config) -> tuple[str, int]:
    """Contact point and port of a Cassandra, shared: choose keyspace names of your own."""
    return _servers(pytestconfig).want("cassandra").cassandra


@pytest.fixture(scope="session")
def mongodb(pytestconfig: pytest.Config) -> str:
    """The URI of a server that speaks MongoDB's protocol, shared: choose database names of your own."""
    return _servers(pytestconfig).want("mongodb").mongodb


@pytest.fixture(scope="session")
def opensearch(pytestconfig: pytest.Config) -> str:
    """The URI of an OpenSearch, shared: choose index names of your own."""
    return _servers(pytestconfig).want("opensearch").opensearch


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> str:
    """The URI of a PostgreSQL, shared: choose schema, slot and publication names of your own."""
    return _servers(pytestconfig).want("postgres").postgres


@pytest.fixture(scope="session")
def mariadb(pytestconfig: pytest.Config) -> str:
    """The URI of a database in a MariaDB, shared: choose table names of your own, and drop them."""
    return _servers(pytestconfig).want("mariadb").mariadb


@pytest.fixture(scope="session")
def rabbitmq(pytestconfig: pytest.Config) -> str:
    """The URI of a RabbitMQ, shared: choose queue and exchange names of your own, and delete them."""
    return _servers(pytestconfig).want("rabbitmq").rabbitmq


@pytest.fixture(scope="session")
def beanstalkd(pytestconfig: pytest.Config) -> tuple[str, int]:
    """Host and port of a beanstalkd, shared: choose tube names of your own, and empty them."""
    return _servers(pytestconfig).want("beanstalkd").beanstalkd


@pytest.fixture(scope="session")
def s3(pytestconfig: pytest.Config) -> str:
    """The endpoint of an S3 gateway, shared: choose bucket names of your own. Its user and password are in `tools.services.s3`."""
    return _servers(pytestconfig).want("s3").s3


@pytest.fixture(scope="session")
def spark_master(pytestconfig: pytest.Config) -> str:
    """The URL of a Spark cluster with two workers of one core and 1 GiB each, shared."""
    return _servers(pytestconfig).want("spark").spark_master


@pytest.fixture
def private_servers(pytestconfig: pytest.Config) -> Iterator[OwnServers]:
    """Servers of the test's own, to be killed and restarted; stopped and removed when it ends."""
    yield from _own_servers(pytestconfig)


@pytest.fixture(scope="module")
def module_servers(pytestconfig: pytest.Config) -> Iterator[OwnServers]:
    """`private_servers` of a whole module."""
    yield from _own_servers(pytestconfig)


def _own_servers(pytestconfig: pytest.Config) -> Iterator[OwnServers]:
    _servers(pytestconfig)
    sweep()
    servers = OwnServers()
    try:
        yield servers
    finally:
        servers.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure whose traceback pytest cannot show fails its test alone; else the worker would end, and the rest of the suite with it."""
    try:
        return (yield)
    except Exception as error:
        assert call.excinfo is not None
        shown = "".join(traceback.format_exception(call.excinfo.type, call.excinfo.value, call.excinfo.tb, chain=False))
        why = "".join(traceback.format_exception(error))
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords=dict.fromkeys(item.keywords, 1),
            outcome="failed",
            longrepr=f"{shown}\npytest could not show the chain of this failure:\n{why}",
            when=call.when,
            duration=call.duration,
        )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once: the summary is never printed where a run is cut off, or hangs after a process of it has died."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED at once: {report.nodeid} ({report.when}): {str(report.longrepr)[-300:]}", file=sys.__stderr__, flush=True)
