"""Checks of configured servers: a connection, and one simple request in the server's protocol."""

from __future__ import annotations

import socket
import struct
from importlib.util import find_spec

from headwater.cli.finding import Finding
from headwater.core.errors import BadConfig
from headwater.core.settings import KafkaSettings

SECONDS = 3.0


def kafka_client() -> Finding:
    """The package that the kafka engine needs."""
    if find_spec("confluent_kafka") is None:
        return Finding("kafka client", False, "The package confluent-kafka is not installed.", "Run `pip install 'headwater[kafka]'`.")
    return Finding("kafka client", True, "The package confluent-kafka is installed.")


def kafka(address: str, settings: KafkaSettings, *, seconds: float = SECONDS) -> Finding:
    """Check that a broker answers ApiVersions without an error; with TLS check only the connection."""
    host, port = split_address(address, 9092)
    secured = settings.client.get("security.protocol", "PLAINTEXT").upper().endswith("SSL")
    request = struct.pack(">hhih", 18, 0, 1, -1)  # ApiVersions, version 0, correlation 1, no client id
    try:
        with socket.create_connection((host, port), seconds) as connection:
            if secured:
                return Finding(f"kafka {address}", True, "It takes connections. (Nothing more is tried behind TLS.)")
            connection.sendall(struct.pack(">i", len(request)) + request)
            length = struct.unpack(">i", _receive(connection, 4))[0]
            body = _receive(connection, min(max(length, 0), 1 << 16))
            correlation, error = struct.unpack_from(">ih", body)
    except (OSError, struct.error) as problem:
        return _unreachable(f"kafka {address}", problem, "Start the broker, or correct kafka.bootstrap.")
    if correlation != 1 or error:
        sentence = f"Something answers, but not as a broker (correlation {correlation}, error {error})."
        return Finding(f"kafka {address}", False, sentence, "Correct kafka.bootstrap: it names another kind of server.")
    return Finding(f"kafka {address}", True, "A broker answers.")


def cassandra(address: str, *, seconds: float = SECONDS) -> Finding:
    """Check that a node answers OPTIONS with SUPPORTED."""
    host, port = split_address(address, 9042)
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.sendall(bytes([4, 0, 0, 0, 5, 0, 0, 0, 0]))  # protocol 4, stream 0, OPTIONS, empty
            head = _receive(connection, 9)
    except OSError as problem:
        return _unreachable(f"cassandra {address}", problem, "Start the node, or correct cassandra.contact_points.")
    if not head[0] & 0x80 or head[4] != 6:
        sentence = f"Something answers, but not as a Cassandra node ({head.hex()})."
        return Finding(
            f"cassandra {address}", False, sentence, "Correct cassandra.contact_points: it names another kind of server, or a very old one."
        )
    return Finding(f"cassandra {address}", True, "A node answers.")


def spark_master(master: str, *, seconds: float = SECONDS) -> Finding:
    """Check that one master of a standalone cluster accepts connections."""
    problem: OSError | None = None
    for address in master.removeprefix("spark://").split(","):
        try:
            with socket.create_connection(split_address(address, 7077), seconds):
                return Finding("spark master", True, f"{address} takes connections.")
        except OSError as error:
            problem = error
    return _unreachable("spark master", problem, "Start the cluster, or correct spark.master.")


def split_address(address: str, port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[::1]:port`. Errors: `BadConfig`."""
    host, colon, written = address.rpartition(":")
    if not colon or (address.startswith("[") and address.endswith("]")):
        host, written = address, str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not written.isdigit() or not 0 < int(written) < 65536:
        raise BadConfig(f"{address!r} is no address.", hint=f"Write it such as host:{port}.")
    return host, int(written)


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionError("it hung up without an answer")
        received += part
    return received


def _unreachable(check: str, problem: Exception | None, todo: str) -> Finding:
    return Finding(check, False, f"It does not answer: {problem}.", todo)
