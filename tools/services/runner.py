"""Starts, finds, stops, kills and restarts servers. One process at a time works on one server: the others wait for its lock."""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headwater.core.errors import BadInput, Conflict, NotFound, Timeout, Unavailable, Unsupported
from tools.services import ports, state, users
from tools.services.place import Place, locked, tail
from tools.services.process import Process, spawn
from tools.services.server import Node, Server
from tools.services.state import State

POLL = 0.05  # between two probes
GRACE = 20.0  # how long a server may take to stop before it is killed
PORT_ATTEMPTS = 3  # a port may be taken between choosing and using it


class Runner:
    """Everything that can be done with servers in one place (run folder)."""

    def __init__(self, place: Place, *, chance: random.Random | None = None) -> None:
        if not sys.platform.startswith("linux"):
            raise Unsupported(
                "Servers are started on Linux only.", hint="Point headwater at servers of your own instead: see docs/how-to/services.md."
            )
        self.place = place
        self._chance = chance or random.Random()

    def up(self, server: Server, *, kept: bool = True, quick: bool = False, user: Process | None = None) -> tuple[State, bool]:
        """The running server, started if need be; and whether it was found running. `user` is put down as using it: see `release`.

        `quick`: it is for tests, see `State`.

        Nodes that died are started again with their data and ports. When this raises, nothing that it started is left running.
        """
        with self._hold(server.name) as folder:
            server.have(self.place)
            if user is not None:
                users.add(folder, user)
            known = state.read(folder)
            if known is not None and any(node.alive() for node in known.nodes):
                return self._revive(server, known, folder, kept)
            empty = not any((folder / node.name).exists() for node in server.nodes())
            disposable = quick and not kept and (empty or (known is not None and known.disposable))
            return self._start(server, folder, State(server.kind, server.size, [], kept, quick=quick, disposable=disposable), empty), False

    def down(self, name: str, *, clear: bool = False) -> bool:
        """Stop a server; `clear` removes its data and logs too, so that it need not be asked but is killed. False when it did not run."""
        with self._hold(name) as folder:
            known = state.read(folder)
            ran = known is not None and any(node.alive() for node in known.nodes)
            if known is not None:
                self._stop(name, known, folder, signal.SIGKILL if clear else signal.SIGTERM)
            if clear:
                shutil.rmtree(folder, ignore_errors=True)
            return ran

    def release(self, user: Process) -> list[str]:
        """Take a user off everywhere, and stop what nobody uses or wants any more. Returns the names of what was stopped."""
        stopped = []
        for name in self.states():
            with self._hold(name) as folder:
                known = state.read(folder)
                if users.remove(folder, user) and known is not None and not known.kept and not users.present(folder):
                    self._stop(name, known, folder, signal.SIGKILL if known.disposable else signal.SIGTERM)
                    if known.disposable:
                        shutil.rmtree(folder, ignore_errors=True)
                    stopped.append(name)
        return stopped

    def kill(self, server: Server, name: str) -> None:
        """Kill one node as a crash would (signal 9). Its data stay."""
        with self._hold(server.name) as folder:
            node = self._node(server, name, folder)
            if node.process is not None:
                node.process.send(signal.SIGKILL)
                node.process.wait_gone(GRACE)
            self.place.say(f"{server.name}: {name} was killed")

    def restart(self, server: Server, name: str) -> None:
        """Start one node again, stopping it first if it runs: same ports, same data. Returns when it is ready."""
        with self._hold(server.name) as folder:
            server.have(self.place)
            node = self._node(server, name, folder)
            self._end([node])
            known = state.read(folder)
            assert known is not None
            known = self._launch(server, node, known, folder)
            self._wait(server, known, folder, [name])

    def states(self) -> dict[str, State]:
        """What is recorded in the run folder, by name."""
        states = {path.parent.name: state.read(path.parent) for path in sorted(self.place.run.glob("*/state.json"))}
        return {name: known for name, known in states.items() if known is not None}

    def folder(self, name: str) -> Path:
        return self.place.run / name

    @contextmanager
    def _hold(self, name: str) -> Iterator[Path]:
        folder = self.folder(name)
        with locked(self.place.run / f"{name}.lock", self.place.say, f"another process is working on {name}, waiting for it"):
            yield folder

    def _node(self, server: Server, name: str, folder: Path) -> Node:
        known = state.read(folder)
        if known is None:
            raise Conflict(f"{server.name} is not running.", hint=f"Run `python -m tools.services up {server.kind}`.")
        node = known.node(name)
        if node is None:
            raise NotFound(f"{server.name} has no node {name}.", hint="It has " + ", ".join(each.name for each in known.nodes) + ".")
        return node

    def _revive(self, server: Server, known: State, folder: Path, kept: bool) -> tuple[State, bool]:
        was_ready = known.ready
        known = msgspec.structs.replace(known, kept=known.kept or kept)
        state.write(folder, known)
        ended = [node for node in known.nodes if not node.alive()]
        try:
            for stage in sorted({node.stage for node in known.nodes}):
                names = [node.name for node in known.nodes if node.stage == stage]
                for node in [node for node in ended if node.stage == stage]:
                    self.place.say(f"{server.name}: {node.name} had ended, starting it again")
                    known = self._launch(server, node, known, folder)
                self._wait(server, known, folder, names)
        except BaseException:
            self._end([node for node in known.nodes if node.name in {each.name for each in ended}])
            raise
        return self._record(server, known, folder), was_ready

    def _start(self, server: Server, folder: Path, new: State, empty: bool) -> State:
        started = time.monotonic()
        avoid: frozenset[int] = frozenset()
        for attempt in range(1, PORT_ATTEMPTS + 1):
            nodes = self._with_ports(server, avoid)
            server.prepare(nodes, folder)
            known = msgspec.structs.replace(new, nodes=nodes)
            try:
                for stage in sorted({node.stage for node in nodes}):
                    names = [node.name for node in nodes if node.stage == stage]
                    for node in [node for node in nodes if node.stage == stage]:
                        known = self._launch(server, node, known, folder)
                    self._wait(server, known, folder, names)
            except BaseException as problem:
                known = state.read(folder) or known
                lost = frozenset(port for node in known.nodes if not node.alive() for port in node.ports.values() if not ports.free(port))
                self._stop(server.name, known, folder)
                if isinstance(problem, Unavailable) and lost and attempt < PORT_ATTEMPTS:
                    self.place.say(f"{server.name}: somebody took port {min(lost)} meanwhile, trying others")
                    avoid |= lost
                    if empty:  # the end may have come amid the making of its files: half-made ones stop the next attempt
                        for node in nodes:
                            shutil.rmtree(folder / node.name, ignore_errors=True)
                    continue
                raise
            known = self._record(server, known, folder)
            self.place.say(f"{server.name} is ready at {known.address} after {time.monotonic() - started:.1f} s; its files are in {folder}")
            return known
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _with_ports(self, server: Server, avoid: frozenset[int]) -> list[Node]:
        """The server's nodes, with other ports where the usual ones are taken."""
        usual = server.nodes()
        chosen = iter(ports.choose([port for node in usual for port in node.ports.values()], chance=self._chance, avoid=avoid))
        nodes = [msgspec.structs.replace(node, ports={what: next(chosen) for what in node.ports}) for node in usual]
        for before, after in zip(usual, nodes, strict=True):
            for what, port in before.ports.items():
                if after.ports[what] != port:
                    self.place.say(f"{server.name}: {after.name} gets port {after.ports[what]} ({what}), because {port} is taken")
        return nodes

    def _launch(self, server: Server, node: Node, known: State, folder: Path) -> State:
        own = folder / node.name
        own.mkdir(parents=True, exist_ok=True)
        log = own / "server.log"
        if log.exists():
            log.replace(own / "server.log.1")
        server.quick = known.quick
        command = server.command(node, known.nodes, own)
        process = spawn(command.words, env=command.env, folder=own, log=log)
        # Recorded before anybody waits for it: if we die now, the next `up` or `down` still knows the process.
        known = known.with_node(msgspec.structs.replace(node, process=process))
        state.write(folder, known)
        return known

    def _wait(self, server: Server, known: State, folder: Path, names: Sequence[str]) -> None:
        deadline = time.monotonic() + server.seconds
        waiting = [node for node in known.nodes if node.name in names]
        while waiting:
            for node in waiting:
                log = folder / node.name / "server.log"
                if not node.alive():
                    raise Unavailable(
                        f"{server.name}: {node.name} ended while it was starting. The last lines of {log}:\n{tail(log)}\n",
                        hint="See the log.",
                    )
                if time.monotonic() > deadline:
                    raise Timeout(
                        f"{server.name}: {node.name} is not ready after {server.seconds:.0f} s. The last lines of {log}:\n{tail(log)}\n",
                        hint="See the log.",
                    )
            waiting = [node for node in waiting if not self._serves(server, node, known.nodes)]
            if waiting:
                time.sleep(POLL)

    def _serves(self, server: Server, node: Node, nodes: Sequence[Node]) -> bool:
        # The probe alone is not enough: a stranger that took the port meanwhile could answer it.
        return server.ready(node, nodes) and node.process is not None and all(map(node.process.listens, node.ports.values()))

    def _record(self, server: Server, known: State, folder: Path) -> State:
        known = msgspec.structs.replace(known, address=server.address(known.nodes), settings=server.settings(known.nodes))
        state.write(folder, known)
        return known

    def _stop(self, name: str, known: State, folder: Path, number: signal.Signals = signal.SIGTERM) -> None:
        started = time.monotonic()
        running = [node for node in known.nodes if node.alive()]
        for stage in sorted({node.stage for node in running}, reverse=True):
            self._end([node for node in running if node.stage == stage], number)
        state.forget(folder)
        if running:
            self.place.say(f"{name} has stopped, in {time.monotonic() - started:.1f} s")

    def _end(self, nodes: Sequence[Node], number: signal.Signals = signal.SIGTERM) -> None:
        """Ask all to stop, wait, kill what stays; then whatever they started and left behind."""
        asked = {node.process: node.stop for node in nodes if node.process is not None and node.process.alive()}
        processes = list(asked)
        members = [member for process in processes for member in process.session()]
        for process, stop in asked.items():
            process.send(signal.Signals(stop) if number == signal.SIGTERM else number)
        deadline = time.monotonic() + GRACE
        for process in processes:
            if not process.wait_gone(max(0.0, deadline - time.monotonic())):
                process.send(signal.SIGKILL)
                process.wait_gone(GRACE)
        for member in members:
            if number == signal.SIGKILL or not member.wait_gone(2.0):
                member.send(signal.SIGKILL)


def of_kind(kind: str, kinds: dict[str, type[Server]]) -> type[Server]:
    if kind not in kinds:
        raise BadInput(f"There is no server called {kind}.", hint="There are " + ", ".join(sorted(kinds)) + ".")
    return kinds[kind]
