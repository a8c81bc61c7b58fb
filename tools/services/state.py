"""What runs, as recorded in the run folder: one folder per server with `state.json` in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from headwater.core.errors import Damaged
from tools.services.server import Node


class State(msgspec.Struct, frozen=True):
    """A server that was started. `kept`: a person wants it, so a test run that found it leaves it running.

    `quick`: started for tests, see `Server.quick`. `disposable`: it held nothing before a test run started it, so what it holds goes when
    the last run that uses it ends. Otherwise every run would leave its topics and tables to the next ones.
    """

    kind: str
    size: int
    nodes: list[Node]
    kept: bool
    address: str = ""
    settings: dict[str, str] = {}
    quick: bool = False
    disposable: bool = False

    @property
    def ready(self) -> bool:
        """Whether all its nodes run and were seen ready."""
        return bool(self.address) and all(node.alive() for node in self.nodes)

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def with_node(self, changed: Node) -> State:
        return msgspec.structs.replace(self, nodes=[changed if node.name == changed.name else node for node in self.nodes])


def read(folder: Path) -> State | None:
    """The recorded state of the server in `folder`; None when it was never started, or was stopped."""
    path = folder / "state.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as problem:
        raise Damaged(f"{path} cannot be read: {problem}.", hint=f"See what runs with `ps`, stop it, and remove {path}.") from problem


def write(folder: Path, state: State) -> None:
    """Record it, whole or not at all: a torn file would leave servers running that nobody can stop."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix="state-", delete=False) as file:
        file.write(msgspec.json.format(msgspec.json.encode(state), indent=2))
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, folder / "state.json")


def forget(folder: Path) -> None:
    (folder / "state.json").unlink(missing_ok=True)
