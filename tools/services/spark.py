"""A Spark standalone cluster: one master and two workers, from the PySpark that is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Unavailable
from headwater.spark.java import Java, find_java
from tools.services import probe
from tools.services.place import Place
from tools.services.server import SPARING, Command, Node, Server, plain_env

WORKERS = 2
OPTIONS = (
    *SPARING,  # master and worker only pass messages: the executors, which do the work, choose for themselves
    "-Dspark.port.maxRetries=0",  # a port that was taken meanwhile is an error here; Spark would take the next one without telling us
    "-Dspark.master.rest.enabled=false",  # one port less; applications come from drivers here
    "-Dspark.worker.cleanup.enabled=true",
    "-Dspark.ui.retainedJobs=20",
)
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %p %m (%c{1})%n
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""


class Spark(Server):
    kind: ClassVar[str] = "spark"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._java: Java | None = None
        self._home = Path()

    def have(self, place: Place) -> None:
        spec = find_spec("pyspark")
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable("PySpark is not installed.", hint="Run `make venv`, and use .venv/bin/python.")
        self._home = Path(spec.submodule_search_locations[0])
        self._java = find_java()

    def nodes(self) -> list[Node]:
        workers = [
            Node(f"worker-{number}", {"workers": 7077 + number, "pages": 8080 + number}, stage=1) for number in range(1, WORKERS + 1)
        ]
        return [Node("master", {"clients": 7077, "pages": 8080}), *workers]

    def prepare(self, nodes: Sequence[Node], folder: Path) -> None:
        """A new cluster knows no applications: what earlier ones left behind goes."""
        for node in nodes:
            shutil.rmtree(folder / node.name, ignore_errors=True)

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        assert self._java is not None, "have() comes first"
        for name in ("conf", "local", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "conf" / "log4j2.properties").write_text(LOGGING)
        env = plain_env(
            JAVA_HOME=str(self._java.home),
            PYSPARK_PYTHON=sys.executable,
            SPARK_CONF_DIR=str(folder / "conf"),
            SPARK_DAEMON_JAVA_OPTS=" ".join(OPTIONS),
            SPARK_DAEMON_MEMORY="256m",
            SPARK_HOME=str(self._home),
            SPARK_LOCAL_DIRS=str(folder / "local"),
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_SCALA_VERSION="2.13",
        )
        words = ["--host", "127.0.0.1", "--webui-port", str(node.ports["pages"])]
        if node.name == "master":
            words = ["org.apache.spark.deploy.master.Master", *words, "--port", str(node.ports["clients"])]
        else:
            words = ["org.apache.spark.deploy.worker.Worker", *words, "--port", str(node.ports["workers"])]
            words += ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), self.address(nodes)]
        return Command(self._java_command(words, env), env)

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        """The master says that it is alive; a worker is ready when the master knows it by the id that the worker has now."""
        page = probe.json_page(nodes[0].ports["pages"], "/json/")
        if page is None or page.get("status") != "ALIVE" or node.name == "master":
            return page is not None and page.get("status") == "ALIVE"
        own = probe.json_page(node.ports["pages"], "/json/")
        known = {worker["id"] for worker in page.get("workers", []) if worker.get("state") == "ALIVE"}
        return own is not None and own.get("id") in known

    def address(self, nodes: Sequence[Node]) -> str:
        return f"spark://127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"HEADWATER_SPARK__MASTER": self.address(nodes)}

    def _java_command(self, words: Sequence[str], env: dict[str, str]) -> list[str]:
        """The whole Java command for one of Spark's classes, as Spark's own launcher builds it: the same that `bin/spark-class` runs."""
        assert self._java is not None
        launcher = [str(self._java.program), *SPARING, "-Xmx128m", "-cp", f"{self._home}/jars/*"]
        done = subprocess.run([*launcher, "org.apache.spark.launcher.Main", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True)
        # A line with one NUL comes before the command, the words of which end with a NUL each.
        _, mark, command = done.stdout.partition(b"\0\n")
        if done.returncode or not mark:
            raise Unavailable(
                f"Spark's launcher failed: {(done.stderr or done.stdout).decode(errors='replace')}", hint="See whether pyspark is whole."
            )
        return [word.decode() for word in command.split(b"\0") if word]
