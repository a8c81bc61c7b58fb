"""A server that speaks MongoDB's protocol, with an oplog and its data on disk. It is mongo-java-server, not MongoDB itself.

It commits to its file every millisecond: what it acknowledged in the very last moment before a kill may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tools.services import embedded, probe
from tools.services.jar_server import JarServer
from tools.services.server import SPARING, Command, Node

DELAY = 1  # milliseconds after which a change is written to the file; the library's own default is a second


class MongoDB(JarServer):
    kind: ClassVar[str] = "mongodb"

    def nodes(self) -> list[Node]:
        return [Node("mongodb-1", {"clients": 27017})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        options = ["-Xmx384m", *SPARING, "-XX:+ExitOnOutOfMemoryError", "-Dio.netty.noUnsafe=true"]
        return Command(embedded.command(self.java, self.jars, options))

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        if not embedded.listens(node):
            embedded.start(node, lambda gateway: _orders(gateway, node), stop="shutdownNow", seconds=self.seconds)
        return probe.mongodb(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"MONGODB_URI": f"mongodb://{self.address(nodes)}"}


def _orders(gateway: Any, node: Node) -> Any:
    library = gateway.jvm.de.bwaldvogel.mongo
    assert node.process is not None
    backend = library.backend.h2.H2Backend(str(Path(f"/proc/{node.process.pid}/cwd").resolve() / "data.mv"))
    backend.getMvStore().setAutoCommitDelay(DELAY)
    server = library.MongoServer(backend)
    server.enableOplog()
    server.bind("127.0.0.1", node.ports["clients"])
    return server
