from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from headwater.cli import doctor_services
from headwater.cli.doctor_services import split_address
from headwater.core.errors import BadConfig
from headwater.core.settings import KafkaSettings, Passed

Answering = Callable[[bytes], str]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A port that reads once, answers with the given bytes, and hangs up."""
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(60)
        sockets.append(listener)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(60)
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        threads.append(thread)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(60)
    for one in sockets:
        one.close()


@pytest.fixture
def closed_port() -> Iterator[str]:
    with socket.socket() as taken:  # bound and not listening: nobody else can have the port meanwhile
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def api_versions(correlation: int, error: int) -> bytes:
    body = struct.pack(">ihi", correlation, error, 0)
    return struct.pack(">i", len(body)) + body


# The good answers of real servers are tested against real servers; here is everything else.


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (api_versions(1, 35), "not as a broker"),
        (api_versions(2, 0), "not as a broker"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer"),
        (b"", "does not answer"),
        (struct.pack(">i", 3) + b"abc", "does not answer"),
        (struct.pack(">i", -5), "does not answer"),
    ],
)
def test_what_is_no_broker(answering: Answering, answer: bytes, says: str) -> None:
    finding = doctor_services.kafka(answering(answer), KafkaSettings())
    assert not finding.ok
    assert says in finding.said
    assert "kafka.bootstrap" in finding.todo


@pytest.mark.parametrize(
    ("answer", "says"),
    [(b"HTTP/1.1 400 Bad", "not as a Cassandra node"), (b"\x84", "does not answer"), (bytes([0x84, 0, 0, 0, 0, 0, 0, 0, 0]), "not as")],
)
def test_what_is_no_node(answering: Answering, answer: bytes, says: str) -> None:
    finding = doctor_services.cassandra(answering(answer))
    assert not finding.ok
    assert says in finding.said
    assert "cassandra.contact_points" in finding.todo


def test_nobody_listens(closed_port: str) -> None:
    for finding in (
        doctor_services.kafka(closed_port, KafkaSettings()),
        doctor_services.cassandra(closed_port),
        doctor_services.spark_master(f"spark://{closed_port}"),
    ):
        assert not finding.ok
        assert "refused" in finding.said
        assert finding.todo


def test_a_server_that_is_silent_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        finding = doctor_services.cassandra(f"127.0.0.1:{listener.getsockname()[1]}", seconds=0.05)
    assert not finding.ok
    assert "timed out" in finding.said


def test_behind_tls_only_the_connection_is_tried(answering: Answering) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = KafkaSettings(client=Passed({"security.protocol": "sasl_ssl"}))
        assert doctor_services.kafka(f"127.0.0.1:{listener.getsockname()[1]}", settings).ok


def test_one_master_of_several_is_enough(closed_port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert doctor_services.spark_master(f"spark://{closed_port},127.0.0.1:{listener.getsockname()[1]}").ok


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("host", ("host", 9)),
        ("host:1", ("host", 1)),
        ("[::1]:2", ("::1", 2)),
        ("[::1]", ("::1", 9)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_addresses(address: str, found: tuple[str, int]) -> None:
    assert split_address(address, 9) == found


@pytest.mark.parametrize("address", ["host:", ":1", "host:0", "host:65536", "host:x", "[]:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(BadConfig, match="no address"):
        split_address(address, 9)
