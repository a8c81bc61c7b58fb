"""S3: a gateway (versitygw) that keeps buckets in a folder, checks signatures and answers conditional writes. Built with Go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tools.services import golang, probe
from tools.services.place import Place
from tools.services.server import Command, Node, Server, plain_env

USER = "headwater"
PASSWORD = "headwater-secret"
MODULE, VERSION = "github.com/versity/versitygw", "v1.8.0"
DIGEST = "f4c036a9e58f7946d8b113366cdc212cc5182c6e4ff320b149ee13043894e56e"


class S3(Server):
    kind: ClassVar[str] = "s3"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._program = Path()

    def have(self, place: Place) -> None:
        self._program = golang.have(place, MODULE, VERSION, "cmd/versitygw", DIGEST)

    def nodes(self) -> list[Node]:
        return [Node("s3-1", {"clients": 7070})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        data, about = folder / "data", folder / "about"  # what is known of objects, where the file system cannot keep it with them
        for path in (data, about):
            path.mkdir(parents=True, exist_ok=True)
        words = [str(self._program), "--port", f"127.0.0.1:{node.ports['clients']}", "--quiet", "--keep-alive"]
        env = plain_env(ROOT_ACCESS_KEY=USER, ROOT_SECRET_KEY=PASSWORD)
        return Command([*words, "posix", "--sidecar", str(about), str(data)], env)

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.s3(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": uri(self.address(nodes)), "AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD}


def uri(address: str) -> str:
    return f"http://{address}"
