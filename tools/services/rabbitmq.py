"""RabbitMQ, from the machine's programs or from Debian's packages, with a name service (epmd) of its own on a port of its own.

Erlang is started directly: the packages' scripts insist on /usr/lib/erlang, and leave a name service behind that nobody stops.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Unreachable
from tools.services import debian, probe
from tools.services.place import Place
from tools.services.server import Command, Node, Server, plain_env

USER = PASSWORD = "headwater"
NAMES, SERVER = "epmd-1", "rabbitmq-1"


class RabbitMQ(Server):
    kind: ClassVar[str] = "rabbitmq"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._erlang = self._home = Path()
        self._libraries = ""

    def have(self, place: Place) -> None:
        root = Path("/")
        if _home(root) is None or _erlang(root) is None:
            root = debian.have(place, "rabbitmq", ["rabbitmq-server"])
            self._libraries = debian.libraries(root)
        home = _home(root)
        erlang = _erlang(root) or _erlang(Path("/"))  # what the machine had already was not fetched
        if home is None or erlang is None:
            raise Unreachable("Debian's packages have no RabbitMQ.", hint="Install rabbitmq-server.")
        self._home, self._erlang = home, erlang

    def nodes(self) -> list[Node]:
        return [Node(NAMES, {"names": 4369}), Node(SERVER, {"clients": 5672, "nodes": 25672}, stage=1)]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        names = next(each for each in nodes if each.name == NAMES).ports["names"]
        programs = _programs(self._erlang)
        if node.name == NAMES:
            return Command([str(programs / "epmd"), "-address", "127.0.0.1", "-port", str(names)], self._env())
        starter = folder / "bin" / "erl"  # RabbitMQ looks for a program of this name to see whether the name service runs
        starter.parent.mkdir(exist_ok=True)
        starter.unlink(missing_ok=True)
        starter.symlink_to(programs / "erlexec")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{node.ports['clients']}\n"
            f"default_user = {USER}\ndefault_pass = {PASSWORD}\n"
            "log.console = true\nlog.console.level = warning\nlog.file = false\n"
            "disk_free_limit.absolute = 50MB\n"  # a machine for tests may be nearly full
            "cluster_name = headwater\n"
        )
        (folder / "enabled_plugins").write_text("[].\n")
        words = [str(starter), "-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "+W", "w", "+sbwt", "none", "+S", "2:2"]
        words += [
            "-syslog",
            "logger",
            "[]",
            "-syslog",
            "syslog_error_logger",
            "false",
            "-kernel",
            "prevent_overlapping_partitions",
            "false",
        ]
        words += ["-kernel", "inet_dist_use_interface", "{127,0,0,1}"]
        env = self._env(
            HOME=str(folder),  # where Erlang keeps the word by which its nodes know each other
            PATH=f"{starter.parent}:{os.environ.get('PATH', os.defpath)}",
            ERL_EPMD_PORT=str(names),
            ERL_EPMD_ADDRESS="127.0.0.1",
            ERL_LIBS=str(self._home / "plugins"),
            RABBITMQ_HOME=str(self._home),
            RABBITMQ_NODENAME="headwater@localhost",
            RABBITMQ_DIST_PORT=str(node.ports["nodes"]),
            RABBITMQ_CONFIG_FILE=str(folder / "rabbitmq"),
            RABBITMQ_CONF_ENV_FILE=str(folder / "none"),  # not the machine's
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "enabled_plugins"),
            RABBITMQ_MNESIA_BASE=str(folder / "data"),
            RABBITMQ_LOG_BASE=str(folder / "log"),
        )
        return Command(words, env)

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.epmd(node.ports["names"]) if node.name == NAMES else probe.amqp(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{next(each for each in nodes if each.name == SERVER).ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"RABBITMQ_URI": uri(self.address(nodes))}

    def _env(self, **more: str) -> dict[str, str]:
        own = {"ROOTDIR": str(self._erlang), "BINDIR": str(_programs(self._erlang)), "EMU": "beam", "PROGNAME": "erl"}
        return plain_env(**(own | ({"LD_LIBRARY_PATH": self._libraries} if self._libraries else {}) | more))


def uri(address: str) -> str:
    return f"amqp://{USER}:{PASSWORD}@{address}/"


def _home(root: Path) -> Path | None:
    return next(iter(sorted(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*"), reverse=True)), None)


def _erlang(root: Path) -> Path | None:
    home = root / "usr/lib/erlang"
    return home if list(home.glob("erts-*/bin/erlexec")) else None


def _programs(erlang: Path) -> Path:
    return sorted(erlang.glob("erts-*/bin"))[-1]
