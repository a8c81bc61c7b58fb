"""beanstalkd, from the machine's programs or from Debian's packages, with a log on disk that is synced after each change."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Unreachable
from tools.services import debian, probe
from tools.services.place import Place
from tools.services.server import Command, Node, Server, plain_env


class Beanstalkd(Server):
    kind: ClassVar[str] = "beanstalkd"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._program, self._libraries = Path(), ""

    def have(self, place: Place) -> None:
        program = installed()
        if program is None:
            root = debian.have(place, "beanstalkd", ["beanstalkd"])
            program, self._libraries = installed(root), debian.libraries(root)
        if program is None:
            raise Unreachable("Debian's packages have no beanstalkd.", hint="Install beanstalkd.")
        self._program = program

    def nodes(self) -> list[Node]:
        return [Node("beanstalkd-1", {"clients": 11300})]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        log = folder / "log"
        log.mkdir(exist_ok=True)
        words = [str(self._program), "-l", "127.0.0.1", "-p", str(node.ports["clients"]), "-b", str(log), "-f", "0"]
        return Command(words, plain_env(**({"LD_LIBRARY_PATH": self._libraries} if self._libraries else {})))

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.beanstalkd(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {}  # headwater does not speak to it: benchmarks do


def installed(root: Path = Path("/")) -> Path | None:
    """The program below `root`; None where there is none."""
    if root == Path("/") and (program := shutil.which("beanstalkd")):
        return Path(program)
    path = root / "usr" / "bin" / "beanstalkd"
    return path if path.exists() else None
