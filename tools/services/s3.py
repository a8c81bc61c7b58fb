"""S3: a gateway (S3Proxy) that keeps buckets in a folder, checks signatures and answers conditional writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tools.services import probe
from tools.services.ivy import HERE
from tools.services.jar_server import JarServer
from tools.services.server import SPARING, Command, Node

USER = "headwater"
PASSWORD = "headwater-secret"


class S3(JarServer):
    kind: ClassVar[str] = "s3"

    def nodes(self) -> list[Node]:
        return [Node("s3-1", {"clients": 7070})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        data, config = folder / "data", folder / "server.properties"
        data.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f"s3proxy.endpoint={uri(self.address([node]))}\n"
            f"s3proxy.authorization=aws-v4\ns3proxy.identity={USER}\ns3proxy.credential={PASSWORD}\n"
            "s3proxy.ignore-unknown-headers=true\n"  # newer clients send checksums of their own, which it does not know
            f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={data}\n"
        )
        words = [str(self.java.program), "-Xmx256m", *SPARING]
        words += [f"-Dlogback.configurationFile={HERE / 'logback.xml'}", "-cp", f"{self.jars}{os.sep}*", "org.gaul.s3proxy.Main"]
        return Command([*words, "--properties", str(config)])

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.s3(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": uri(self.address(nodes)), "AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD}


def uri(address: str) -> str:
    return f"http://{address}"
