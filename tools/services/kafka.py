"""Kafka: one broker, or three that replicate. Each is broker and controller in one process (KRaft)."""

from __future__ import annotations

import base64
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import BadInput, Unavailable
from headwater.spark.java import Java, find_java
from tools.services import probe
from tools.services.ivy import HERE
from tools.services.jars import Jars
from tools.services.place import Place
from tools.services.server import SPARING, Command, Node, Server, plain_env


class Kafka(Server):
    kind: ClassVar[str] = "kafka"

    def __init__(self, size: int = 1) -> None:
        if size not in (1, 3):
            raise BadInput(f"Kafka runs here with 1 or 3 brokers, not {size}.", hint="Say --brokers 3.")
        super().__init__(size)
        self._java: Java | None = None
        self._jars = Path()

    def have(self, place: Place) -> None:
        self._java = find_java()
        self._jars = Jars.listed("kafka").have(place, self._java)

    def nodes(self) -> list[Node]:
        return [
            Node(f"broker-{number + 1}", {"clients": 9092 + 2 * number, "controllers": 9093 + 2 * number}) for number in range(self.size)
        ]

    def prepare(self, nodes: Sequence[Node], folder: Path) -> None:
        """Give each broker without data a formatted data folder, all with one cluster id."""
        missing = [node for node in nodes if not (folder / node.name / "data").exists()]
        if not missing:
            return
        cluster = self._cluster(folder, fresh=len(missing) == len(nodes))
        running = []
        for node in missing:
            own = folder / node.name
            own.mkdir(parents=True, exist_ok=True)
            new = own / "data.new"  # renamed when done: a format that was cut short is done again, not used
            shutil.rmtree(new, ignore_errors=True)
            config = own / "format.properties"
            config.write_text(_text(self._properties(node, nodes, new)))
            words = [
                *self._run(*SPARING, "-Xmx256m"),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                cluster,
                "-c",
                str(config),
            ]
            running.append(
                (
                    own,
                    subprocess.Popen(
                        words, env=plain_env(), cwd=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                    ),
                )
            )
        for own, process in running:
            output, _ = process.communicate()
            if process.returncode:
                raise Unavailable(
                    f"Kafka's data folder could not be formatted: {output.decode(errors='replace').strip()}", hint=f"See {own}."
                )
            (own / "data.new").rename(own / "data")

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        config = folder / "server.properties"
        config.write_text(_text(self._properties(node, nodes, folder / "data")))
        heap = "-Xmx512m" if self.size == 1 else "-Xmx384m"
        # The collector and its settings are those of Kafka's own start script, so that measurements against it are fair.
        collector = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent")
        options = SPARING if self.quick else ("-server", *collector)
        return Command([*self._run(heap, *options), "kafka.Kafka", str(config)])

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.kafka(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return ",".join(f"127.0.0.1:{node.ports['clients']}" for node in nodes)

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"HEADWATER_KAFKA__BOOTSTRAP": self.address(nodes)}

    def _run(self, *options: str) -> list[str]:
        assert self._java is not None, "have() comes first"
        # Kafka marks its bundled native libraries as needing this; newer Javas warn without it.
        native = ("--enable-native-access=ALL-UNNAMED",) if self._java.version >= 22 else ()
        logging = f"-Dlog4j2.configurationFile={HERE / 'kafka-log4j2.xml'}"
        return [str(self._java.program), *options, *native, "-Djava.awt.headless=true", logging, "-cp", f"{self._jars}/*"]

    def _cluster(self, folder: Path, *, fresh: bool) -> str:
        path = folder / "cluster.id"
        if fresh or not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            # Kafka's ids are 16 bytes in 22 letters; its tool takes a leading dash for an option.
            path.write_text("A" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")[1:])
        return path.read_text()

    def _properties(self, node: Node, nodes: Sequence[Node], data: Path) -> Mapping[str, object]:
        copies = min(3, self.size)
        in_sync = max(1, copies - 1)
        voters = ",".join(f"{_number(each)}@127.0.0.1:{each.ports['controllers']}" for each in nodes)
        return {
            "process.roles": "broker,controller",
            "node.id": _number(node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{node.ports['clients']},CONTROLLER://127.0.0.1:{node.ports['controllers']}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{node.ports['clients']}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": data,
            "auto.create.topics.enable": "false",  # a typo must not create a topic
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.ms": -1,  # records of tests have times of long ago, which Kafka would delete after a few minutes
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 4,
            "log.cleaner.dedupe.buffer.size": 16 << 20,
        }


def _number(node: Node) -> int:
    return int(node.name.removeprefix("broker-"))


def _text(properties: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
