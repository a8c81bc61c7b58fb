"""Is a server ready? Each probe asks one question of its protocol and is content with nothing but the right answer."""

from __future__ import annotations

import http.client
import json
import socket
import struct
from typing import Any

SECONDS = 2.0


def kafka(port: int, host: str = "127.0.0.1") -> bool:
    """ApiVersions, version 0, is answered without an error."""
    client = b"headwater"
    body = struct.pack(">hhih", 18, 0, 7, len(client)) + client
    answer = _ask(host, port, struct.pack(">i", len(body)) + body, 10)
    if len(answer) < 10:
        return False
    _size, correlation, error = struct.unpack(">iih", answer)
    return (correlation, error) == (7, 0)


def cassandra(port: int, host: str = "127.0.0.1") -> bool:
    """OPTIONS is answered by SUPPORTED."""
    answer = _ask(host, port, struct.pack(">BBhBi", 4, 0, 0, 5, 0), 9)
    return len(answer) == 9 and answer[0] == 0x84 and answer[4] == 6


def mongodb(port: int, host: str = "127.0.0.1") -> bool:
    """A ping is answered by a message of the same kind that refers to it."""
    ping = b"\x10ping\0" + struct.pack("<i", 1) + b"\x02$db\0" + struct.pack("<i", 6) + b"admin\0"
    body = struct.pack("<iB", 0, 0) + struct.pack("<i", len(ping) + 5) + ping + b"\0"
    answer = _ask(host, port, struct.pack("<iiii", len(body) + 16, 7, 0, 2013) + body, 16)
    return len(answer) == 16 and struct.unpack("<iiii", answer)[2:] == (7, 2013)


def postgres(port: int, user: str, host: str = "127.0.0.1") -> bool:
    """A client that names itself is asked for its password, or let in; while the server starts it is sent away."""
    body = struct.pack(">i", 196608) + b"user\0" + user.encode() + b"\0database\0postgres\0\0"
    return _ask(host, port, struct.pack(">i", len(body) + 4) + body, 1) == b"R"


def mysql(port: int, host: str = "127.0.0.1") -> bool:
    """The server speaks first: a handshake of version 10."""
    return _ask(host, port, b"", 5)[4:] == b"\x0a"


def amqp(port: int, host: str = "127.0.0.1") -> bool:
    """A client's greeting is answered by a frame on channel 0: Connection.Start."""
    answer = _ask(host, port, b"AMQP\0\0\x09\x01", 11)
    return len(answer) == 11 and answer[:3] == b"\1\0\0" and struct.unpack(">hh", answer[7:]) == (10, 10)


def epmd(port: int, host: str = "127.0.0.1") -> bool:
    """Asked for the names it knows, Erlang's name service says its own port first."""
    return _ask(host, port, b"\0\1n", 4) == struct.pack(">i", port)


def beanstalkd(port: int, host: str = "127.0.0.1") -> bool:
    """Asked for the tube in use, it names the first one."""
    return _ask(host, port, b"list-tube-used\r\n", 15) == b"USING default\r\n"


def s3(port: int, host: str = "127.0.0.1") -> bool:
    """A request for the list of buckets that nobody has signed is refused, in S3's words."""
    return b"<Code>AccessDenied</Code>" in _ask(host, port, b"GET / HTTP/1.1\r\nHost: s3\r\nConnection: close\r\n\r\n", 4096)


def json_page(port: int, path: str, host: str = "127.0.0.1") -> dict[str, Any] | None:
    """The JSON object that an HTTP server gives at `path`; None when it gives none."""
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        page = json.loads(answer.read()) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return page if isinstance(page, dict) else None


def _ask(host: str, port: int, question: bytes, size: int) -> bytes:
    """The first `size` bytes of the answer; fewer when the server hangs up, none when nobody is there."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as connection:
            connection.sendall(question)
            while len(answer) < size:
                part = connection.recv(size - len(answer))
                if not part:
                    break
                answer += part
    except OSError:
        return b""
    return answer
