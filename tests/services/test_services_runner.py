"""Starting, finding, stopping, killing and restarting, with a small server."""

from __future__ import annotations

import os
import random
import signal
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from small import Small, answer
from tools.services import ports, state
from tools.services.place import Place
from tools.services.process import Process, current
from tools.services.runner import Runner
from tools.services.server import Command, Node

from headwater.core.errors import Conflict, Damaged, NotFound, Timeout, Unavailable, Unreachable

pytestmark = pytest.mark.service()  # no server is needed, but these belong to them


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def runner(tmp_path: Path, said: list[str]) -> Iterator[Runner]:
    runner = Runner(Place(tmp_path / "cache", tmp_path / "run", said.append))
    yield runner
    for name in runner.states():
        runner.down(name)


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago, with a free one after it."""
    chance = random.Random()
    while True:
        first = chance.choice(ports.OTHERS)
        if ports.free(first) and ports.free(first + 1):
            return first


def pid(runner: Runner, node: str = "node-1") -> int:
    found = runner.states()["small"].node(node)
    assert found is not None
    assert found.process is not None
    return found.process.pid


def test_up_returns_when_it_serves(runner: Runner, port: int) -> None:
    known, found = runner.up(Small(port=port))
    assert (known.address, known.ready, found) == (f"127.0.0.1:{port}", True, False)
    assert answer(port) == b"ready"


def test_a_second_up_finds_it(runner: Runner, port: int) -> None:
    runner.up(Small(port=port))
    first = pid(runner)
    known, found = Runner(runner.place).up(Small(port=port))
    assert found
    assert pid(runner) == first
    assert known.address == f"127.0.0.1:{port}"


def test_many_at_once_start_one(runner: Runner, port: int) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: Runner(runner.place).up(Small(port=port))[1], range(6)))
    assert sorted(found) == [False] + [True] * 5
    assert (runner.folder("small") / "node-1" / "data").read_text() == "started\n"


def test_down_stops_it_and_keeps_its_data(runner: Runner, port: int, said: list[str]) -> None:
    runner.up(Small(port=port))
    process = msgspec.structs.asdict(runner.states()["small"].nodes[0])["process"]
    assert runner.down("small")
    assert not process.alive()
    assert ports.free(port)
    assert runner.states() == {}
    assert any("small has stopped" in line for line in said)
    assert not runner.down("small")
    runner.up(Small(port=port))
    assert (runner.folder("small") / "node-1" / "data").read_text() == "started\n" * 2


def test_down_can_clear_its_data(runner: Runner, port: int) -> None:
    runner.up(Small(port=port))
    assert runner.down("small", clear=True)
    assert not runner.folder("small").exists()


def test_down_never_stops_a_stranger_with_the_same_id(runner: Runner, port: int) -> None:
    runner.up(Small(port=port))
    real = runner.states()["small"]
    node = real.nodes[0]
    assert node.process is not None
    stranger = msgspec.structs.replace(node, process=msgspec.structs.replace(node.process, began=1))
    state.write(runner.folder("small"), real.with_node(stranger))
    assert not runner.down("small")
    assert node.process.alive()
    state.write(runner.folder("small"), real)


def test_what_it_left_behind_is_stopped_too(runner: Runner, port: int) -> None:
    runner.up(Small(port=port, trouble="children"))
    process = runner.states()["small"].nodes[0].process
    assert process is not None
    (child,) = process.session()
    runner.down("small")
    assert child.wait_gone(60)


def test_a_taken_port_is_replaced_and_said(runner: Runner, port: int, said: list[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", port))):
        known, _ = runner.up(Small(port=port))
    other = known.nodes[0].ports["clients"]
    assert other != port
    assert answer(other) == b"ready"
    assert f"small: node-1 gets port {other} (clients), because {port} is taken" in said


def test_a_stranger_s_answer_does_not_make_it_ready(runner: Runner, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the port after it was chosen, and would answer the probe: another port is tried."""
    runner.up(Small(port=port))
    free = ports.free
    lies = iter([True])  # about the taken port, once: as if it had been free when it was chosen
    monkeypatch.setattr(
        ports, "free", lambda asked, host="127.0.0.1": next(lies, free(asked, host)) if asked == port else free(asked, host)
    )
    other = Runner(Place(runner.place.cache, runner.place.run / "other", runner.place.say))
    try:
        known, found = other.up(Small(port=port))
        assert not found
        assert known.nodes[0].ports["clients"] != port
        assert known.ready
    finally:
        other.down("small")


def test_one_that_ends_while_starting_is_told_with_its_log(runner: Runner, port: int) -> None:
    with pytest.raises(Unavailable, match="this is why it ended"):
        runner.up(Small(port=port, trouble="ends"))
    assert runner.states() == {}


def test_one_that_is_never_ready_is_stopped(runner: Runner, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = runner.folder("small") / "node-1" / "server.log"

    def asked(server: Small, node: Node, nodes: Sequence[Node]) -> bool:
        """Whether it serves. Asked first when it has said that it starts: on a busy machine that takes longer than it may take here."""
        while node.alive() and not log.read_bytes():
            os.sched_yield()
        return ready(server, node, nodes)

    ready = Small.ready
    monkeypatch.setattr(Small, "seconds", 1.0)
    monkeypatch.setattr(Small, "ready", asked)
    with pytest.raises(Timeout, match=f"starting on {port}"):
        runner.up(Small(port=port, trouble="mute"))
    assert runner.states() == {}
    assert ports.free(port)


def test_when_it_cannot_be_had_nothing_is_started(runner: Runner, port: int) -> None:
    with pytest.raises(Unreachable):
        runner.up(Small(port=port, fetch=Unreachable("no network")))
    assert runner.states() == {}


def test_kill_and_restart_keep_ports_and_data(runner: Runner, port: int) -> None:
    server = Small(2, port=port)
    before, _ = runner.up(server)
    first, second = (node.process for node in before.nodes)
    assert first is not None
    assert second is not None
    runner.kill(server, "node-2")
    assert first.alive()
    assert not second.alive()
    assert not runner.states()["small-2"].ready
    runner.restart(server, "node-2")
    after = runner.states()["small-2"]
    assert after.ready
    assert [node.ports for node in after.nodes] == [node.ports for node in before.nodes]
    assert after.nodes[0].process == first
    assert (runner.folder("small-2") / "node-2" / "data").read_text() == "started\n" * 2


def test_up_starts_again_what_has_died(runner: Runner, port: int) -> None:
    server = Small(2, port=port)
    runner.up(server)
    runner.kill(server, "node-1")
    known, found = runner.up(server)
    assert not found
    assert known.ready


def test_after_a_crash_of_the_machine_all_start_anew(runner: Runner, port: int) -> None:
    known, _ = runner.up(Small(port=port))
    process = known.nodes[0].process
    assert process is not None
    process.send(signal.SIGKILL)
    assert process.wait_gone(60)
    known, found = runner.up(Small(port=port))
    assert (found, known.ready) == (False, True)


def test_a_node_that_is_not_there_is_told(runner: Runner, port: int) -> None:
    with pytest.raises(Conflict, match="not running"):
        runner.kill(Small(port=port), "node-1")
    runner.up(Small(port=port))
    with pytest.raises(NotFound, match="It has node-1"):
        runner.kill(Small(port=port), "node-7")


def test_a_damaged_record_is_told(runner: Runner, port: int) -> None:
    runner.up(Small(port=port))
    path = runner.folder("small") / "state.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:50])
    with pytest.raises(Damaged, match=r"state\.json"):
        runner.down("small")
    path.write_bytes(whole)


@pytest.fixture
def users() -> tuple[Process, Process]:
    """Two users that run: this process, and the first one of the machine."""
    return current(), Process(1, int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]), current().boot)


def test_the_last_user_stops_it(runner: Runner, port: int, users: tuple[Process, Process]) -> None:
    for user in users:
        runner.up(Small(port=port), kept=False, user=user)
    assert runner.release(users[0]) == []
    assert runner.states()["small"].ready
    assert runner.release(users[0]) == []
    assert runner.release(users[1]) == ["small"]
    assert runner.states() == {}


def test_a_user_that_died_does_not_count(runner: Runner, port: int, users: tuple[Process, Process]) -> None:
    runner.up(Small(port=port), kept=False, user=msgspec.structs.replace(users[1], began=1))
    runner.up(Small(port=port), kept=False, user=users[0])
    assert runner.release(users[0]) == ["small"]


@pytest.mark.parametrize("person_first", [True, False])
def test_what_a_person_wants_is_left_running(runner: Runner, port: int, users: tuple[Process, Process], person_first: bool) -> None:
    for person in (person_first, not person_first):
        runner.up(Small(port=port), kept=person, user=None if person else users[0])
    assert runner.release(users[0]) == []
    assert runner.states()["small"].ready


def test_what_tests_left_in_a_server_that_was_empty_goes_with_the_last_of_them(
    runner: Runner, port: int, users: tuple[Process, Process]
) -> None:
    for user in users:
        known, _ = runner.up(Small(port=port), kept=False, quick=True, user=user)
        assert (known.quick, known.disposable) == (True, True)
    assert runner.release(users[0]) == []
    assert (runner.folder("small") / "node-1" / "data").exists()
    assert runner.release(users[1]) == ["small"]
    assert not runner.folder("small").exists()


def test_what_a_run_left_that_was_killed_goes_with_the_next_one(runner: Runner, port: int, users: tuple[Process, Process]) -> None:
    killed = msgspec.structs.replace(users[1], began=1)
    known, _ = runner.up(Small(port=port), kept=False, quick=True, user=killed)
    process = known.nodes[0].process
    assert process is not None
    process.send(signal.SIGKILL)
    assert process.wait_gone(60)
    runner.up(Small(port=port), kept=False, quick=True, user=users[0])
    assert (runner.folder("small") / "node-1" / "data").read_text() == "started\n" * 2
    runner.release(users[0])
    assert not runner.folder("small").exists()


@pytest.mark.parametrize("person", ["before", "beside"])
def test_what_a_person_put_into_a_server_stays(runner: Runner, port: int, users: tuple[Process, Process], person: str) -> None:
    if person == "before":
        runner.up(Small(port=port))
        runner.down("small")
    runner.up(Small(port=port), kept=False, quick=True, user=users[0])
    if person == "beside":
        runner.up(Small(port=port))
    assert runner.release(users[0]) == ([] if person == "beside" else ["small"])
    runner.down("small")
    assert (runner.folder("small") / "node-1" / "data").exists()


def test_what_an_attempt_with_a_taken_port_left_is_removed(runner: Runner, said: list[str], port: int) -> None:
    taken: list[socket.socket] = []

    class Robbed(Small):
        def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
            (folder / "data").open("a").write("half-made\n" if not taken else "")
            if not taken:
                taken.append(socket.create_server(("127.0.0.1", node.ports["clients"])))
            return super().command(node, nodes, folder)

    runner.up(Robbed(port=port))
    taken[0].close()
    assert any("somebody took port" in line for line in said)
    assert (runner.folder("small") / "node-1" / "data").read_text() == "started\n"


def test_what_was_there_before_outlives_a_taken_port(runner: Runner, said: list[str], port: int) -> None:
    runner.up(Small(port=port))
    runner.down("small")
    taken: list[socket.socket] = []

    class Robbed(Small):
        def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
            if not taken:
                taken.append(socket.create_server(("127.0.0.1", node.ports["clients"])))
            return super().command(node, nodes, folder)

    runner.up(Robbed(port=port))
    taken[0].close()
    assert any("somebody took port" in line for line in said)
    assert (runner.folder("small") / "node-1" / "data").read_text() == "started\nstarted\n"
