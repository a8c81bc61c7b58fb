"""Cassandra: one node with a small heap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Damaged
from headwater.spark.java import Java, find_java
from tools.services import java21, probe
from tools.services.ivy import HERE
from tools.services.jars import Jars
from tools.services.place import Place
from tools.services.server import SPARING, Command, Node, Server

EXPORTS = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.attach/sun.tools.attach",
    "jdk.unsupported/sun.misc",
)
OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)


class Cassandra(Server):
    kind: ClassVar[str] = "cassandra"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._java: Java | None = None
        self._jars = Path()

    def have(self, place: Place) -> None:
        self._java = java21.have(place)
        self._jars = Jars.listed("cassandra").have(place, find_java())

    def nodes(self) -> list[Node]:
        return [Node("node-1", {"clients": 9042, "nodes": 7000})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        assert self._java is not None, "have() comes first"
        config = folder / "cassandra.yaml"
        config.write_text(_config(node, folder))
        agent = next(self._jars.glob("jamm-*.jar"), None)
        if agent is None:
            raise Damaged(f"{self._jars} has no jamm, by which Cassandra measures its memory.", hint="Remove the folder and try again.")
        settings = {
            "cassandra.config": config.as_uri(),
            "cassandra.storagedir": folder,
            "cassandra-foreground": "yes",
            "cassandra.ring_delay_ms": 1,  # alone in its ring: there is nobody to wait for
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "io.netty.tryReflectionSetAccessible": "true",
            "java.awt.headless": "true",
            "java.security.manager": "allow",
            "jdk.attach.allowAttachSelf": "true",
            "logback.configurationFile": (HERE / "logback.xml").as_uri(),
        }
        words = [str(self._java.program), "-Xms512m", "-Xmx512m", *SPARING, "-XX:+ExitOnOutOfMemoryError", f"-javaagent:{agent}"]
        words += [f"-D{name}={value}" for name, value in settings.items()]
        words += [word for what in EXPORTS for word in ("--add-exports", f"{what}=ALL-UNNAMED")]
        words += [word for what in OPENS for word in ("--add-opens", f"{what}=ALL-UNNAMED")]
        return Command([*words, "-cp", f"{self._jars}/*", "org.apache.cassandra.service.CassandraDaemon"])

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.cassandra(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"HEADWATER_CASSANDRA__CONTACT_POINTS": self.address(nodes)}


def _config(node: Node, folder: Path) -> str:
    return f"""\
cluster_name: headwater
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
auto_bootstrap: false
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {node.ports["clients"]}
storage_port: {node.ports["nodes"]}
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{node.ports["nodes"]}"
data_file_directories: ["{folder}/data"]
commitlog_directory: "{folder}/commitlog"
saved_caches_directory: "{folder}/saved_caches"
hints_directory: "{folder}/hints"
cdc_raw_directory: "{folder}/cdc_raw"
# An acknowledged write survives a crash. Cassandra's own default acknowledges up to ten seconds before it syncs.
commitlog_sync: batch
commitlog_segment_size: 8MiB
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
key_cache_size: 8MiB
"""
