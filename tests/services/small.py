"""A server of a few lines, real process and real port, so that starting and stopping can be tested without waiting for a big one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tools.services.place import Place
from tools.services.server import Command, Node, Server

SCRIPT = """
import os, socket, subprocess, sys
port, trouble = int(sys.argv[1]), sys.argv[2]
print("starting on", port, flush=True)
if trouble == "ends":
    sys.exit("this is why it ended")
if trouble == "children":
    print("child", subprocess.Popen(["sleep", "600"]).pid, flush=True)
server = socket.create_server(("127.0.0.1", port))
with open("data", "a") as data:
    data.write("started\\n")
while True:
    client, _ = server.accept()
    client.sendall(b"mute" if trouble == "mute" else b"ready")
    client.close()
"""


class Small(Server):
    kind: ClassVar[str] = "small"
    seconds: ClassVar[float] = 120.0

    def __init__(self, size: int = 1, *, port: int = 0, trouble: str = "none", fetch: Exception | None = None) -> None:
        super().__init__(size)
        self._port, self._trouble, self._fetch = port, trouble, fetch

    def have(self, place: Place) -> None:
        if self._fetch is not None:
            raise self._fetch

    def nodes(self) -> list[Node]:
        return [Node(f"node-{number}", {"clients": self._port + number - 1}, stage=number) for number in range(1, self.size + 1)]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        return Command([sys.executable, "-c", SCRIPT, str(node.ports["clients"]), self._trouble])

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        with suppress(OSError):
            return answer(node.ports["clients"]) == b"ready"
        return False

    def address(self, nodes: Sequence[Node]) -> str:
        return ",".join(f"127.0.0.1:{node.ports['clients']}" for node in nodes)

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"SMALL": self.address(nodes)}


def answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        return client.recv(100)
