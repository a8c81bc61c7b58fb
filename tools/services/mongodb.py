"""A server that speaks MongoDB's protocol, with an oplog and its data on disk. It is mongo-java-server, not MongoDB itself.

It commits to its file every millisecond: what it acknowledged in the very last moment before a kill may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from headwater.spark.java import Java, find_java
from tools.services import embedded, probe
from tools.services.jars import Jars
from tools.services.place import Place
from tools.services.server import Command, Node, Server

DELAY = 1  # milliseconds after which a change is written to the file; the library's own default is a second


class MongoDB(Server):
    kind: ClassVar[str] = "mongodb"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._java: Java | None = None
        self._jars = Path()

    def have(self, place: Place) -> None:
        self._java = find_java()
        self._jars = Jars.listed("mongodb").have(place, self._java)

    def nodes(self) -> list[Node]:
        return [Node("mongodb-1", {"clients": 27017})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        assert self._java is not None, "have() comes first"
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Dio.netty.noUnsafe=true"]
        return Command(embedded.command(self._java, self._jars, options))

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
