"""What tests do to a broker without the log: records as no client would produce them, topics that others make."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from google_crc32c import value as crc32c

from headwater.core.errors import UnknownTopic
from headwater.log.kafka.log import KafkaLog

PATIENCE = 30.0  # seconds


def produce_raw(kafka: str, topic: str, key: bytes, value: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """One record by a request of our own: clients refuse such names."""

    def sized(data: bytes) -> bytes:
        return _varint(len(data)) + data

    body = b"".join((b"\0\0\0", sized(key), sized(value), _varint(len(headers)), *(sized(part) for header in headers for part in header)))
    checked = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + sized(body)
    batch = struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c(checked)) + checked
    place = struct.pack(">ih", 1, len(topic)) + topic.encode() + struct.pack(">iii", 1, 0, len(batch)) + batch
    request = struct.pack(">hhihhhi", 0, 7, 1, -1, -1, -1, 10_000) + place  # produce, version 7, for all replicas
    host, _, port = kafka.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    error, _ = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    assert error == 0


def wait_for_topic(kafka: str, name: str) -> None:
    """Wait until the broker knows a topic: the controller, which has made it, knows of it a moment earlier."""
    until = time.monotonic() + PATIENCE
    with KafkaLog(kafka, read_only=True) as log:
        while True:
            try:
                log.topic(name)
                return
            except UnknownTopic:
                assert time.monotonic() < until, f"the broker does not know {name}"
                time.sleep(0.02)


def _varint(number: int) -> bytes:
    number, encoded = number << 1, bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes((*encoded, number))
