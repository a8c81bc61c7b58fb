"""What a kind of server has to tell, so that the runner can start, probe and stop it. A new kind is one file with one class like this."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from tools.services.place import Place
from tools.services.process import Process

SPARING = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # a JVM that is ready in half the time, and then half as fast
KEPT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


class Node(msgspec.Struct, frozen=True):
    """One process of a server. `stage`: nodes of a later stage start when those of the earlier ones are ready."""

    name: str
    ports: dict[str, int]
    stage: int = 0
    process: Process | None = None
    stop: int = signal.SIGTERM  # what asks it to end

    def alive(self) -> bool:
        return self.process is not None and self.process.alive()


@dataclass(frozen=True, slots=True)
class Command:
    """How to run a node."""

    words: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: plain_env())


class Server(ABC):
    """One arrangement of one kind of server: Kafka with one broker, Kafka with three, …

    The runner calls `have`, `nodes`, `prepare`, then per node `command` and, until it is true, `ready`. `address` and `settings` are asked
    when all are ready. Everything that a node writes goes below its folder.
    """

    kind: ClassVar[str]  # what people type
    seconds: ClassVar[float] = 180.0  # how long a start may take on a slow, busy machine

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.quick = False  # set by the runner: it runs for minutes, so that a thorough compiler costs more than it gains

    @property
    def name(self) -> str:
        """The arrangement's name, and its folder's: two arrangements of one kind can run side by side."""
        return self.kind if self.size == 1 else f"{self.kind}-{self.size}"

    @abstractmethod
    def have(self, place: Place) -> None:
        """Fetch whatever is needed. Errors: `Unreachable`, `Damaged`."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """The nodes with the ports that they have by custom."""

    def prepare(self, nodes: Sequence[Node], folder: Path) -> None:  # noqa: B027 (most servers need nothing)
        """What has to be done once before a first start."""

    @abstractmethod
    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        """Write the node's configuration below `folder`, which is the node's, and say how to run it."""

    @abstractmethod
    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        """Probe it: does it serve?"""

    @abstractmethod
    def address(self, nodes: Sequence[Node]) -> str:
        """Where clients find it."""

    @abstractmethod
    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        """The environment that points headwater at it."""


def plain_env(**more: str) -> dict[str, str]:
    """An environment without the variables by which Java, Kafka, Cassandra or Spark could be led astray."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | more
