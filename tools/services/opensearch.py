"""OpenSearch: one node, its data on disk, without its security plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from tools.services import embedded, probe
from tools.services.jar_server import JarServer
from tools.services.server import SPARING, Command, Node

# All that writing, searching and scripts need. The module for the analysis of other languages is left out: it asks Java for Thai, which the
# packaged Java has not got, and refuses every index then.
MODULES = (
    "org.opensearch.index.mapper.MapperExtrasPlugin",
    "org.opensearch.index.reindex.ReindexPlugin",
    "org.opensearch.painless.PainlessPlugin",
    "org.opensearch.transport.Netty4Plugin",
)
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p %m (%c{1})%n
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
"""


class OpenSearch(JarServer):
    kind: ClassVar[str] = "opensearch"

    def nodes(self) -> list[Node]:
        return [Node("search-1", {"clients": 9200, "nodes": 9300})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        config = folder / "config"
        config.mkdir(parents=True, exist_ok=True)
        (config / "log4j2.properties").write_text(LOGGING)
        (config / "opensearch.yml").write_text(_config(node))
        options = ["-Xms384m", "-Xmx384m", *SPARING, "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"]
        if self.java.version >= 22:  # Lucene reads its files through native calls; newer Javas warn without it
            options.append("--enable-native-access=ALL-UNNAMED")
        options += ["-Dlog4j2.disable.jmx=true", "-Dio.netty.noUnsafe=true"]
        return Command(embedded.command(self.java, self.jars, options))

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        if not embedded.listens(node):
            embedded.start(node, lambda gateway: _orders(gateway, node), stop="close", seconds=self.seconds)
        return self._serves(node)

    def _serves(self, node: Node) -> bool:
        """It has recovered its indices: before, it answers but refuses to write to those that it had."""
        health = probe.json_page(node.ports["clients"], "/_cluster/health?wait_for_status=yellow&timeout=1s")
        return health is not None and health.get("status") in ("yellow", "green") and not health.get("timed_out")

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"OPENSEARCH_URI": f"http://{self.address(nodes)}"}


def _orders(gateway: Any, node: Node) -> Any:
    assert node.process is not None
    folder = Path(f"/proc/{node.process.pid}/cwd").resolve()
    runner = gateway.jvm.org.codelibs.opensearch.runner.OpenSearchRunner()
    runner.setMaxHttpPort(-1)  # it would refuse ports above 9299; the node's own port is one above the base
    words = ["-basePath", str(folder), "-confPath", str(folder / "config"), "-dataPath", str(folder / "data"), "-numOfNode", "1"]
    words += ["-logsPath", str(folder / "logs"), "-clusterName", "headwater", "-baseHttpPort", str(node.ports["clients"] - 1)]
    words += ["-moduleTypes", ",".join(MODULES)]
    given = gateway.new_array(gateway.jvm.java.lang.String, len(words))
    for place, word in enumerate(words):
        given[place] = word
    runner.build(given)
    return runner


def _config(node: Node) -> str:
    return f"""\
network.host: 127.0.0.1
transport.port: {node.ports["nodes"]}
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
action.auto_create_index: true
bootstrap.memory_lock: false
"""
