"""PostgreSQL: a cluster of its own with logical decoding on, from the machine's programs or from Debian's packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Unavailable, Unreachable, Unsupported
from tools.services import debian, probe
from tools.services.place import Place
from tools.services.server import Command, Node, Server, plain_env

USER = PASSWORD = "headwater"
SECONDS = 20.0  # how long what a killed server has left behind may take to end
OLDEST = 14  # below it, `ctid` ranges are read by looking at every row
# Another user's id inside a user namespace. PostgreSQL refuses to run as root; so its files need not change hands.
_NOT_ROOT = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


class Postgres(Server):
    kind: ClassVar[str] = "postgres"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._bin = Path()
        self._libraries = ""

    def have(self, place: Place) -> None:
        programs = installed()
        if programs is None:
            root = debian.have(place, "postgres", ["postgresql"])
            programs, self._libraries = installed(root), debian.libraries(root)
        if programs is None:
            raise Unreachable("Debian's packages have no PostgreSQL that is new enough.", hint=f"Install PostgreSQL {OLDEST} or newer.")
        self._bin = programs
        if self._as() and subprocess.run([*self._as(), "true"], capture_output=True).returncode:
            raise Unsupported("PostgreSQL refuses to run as root, and user namespaces are not allowed here.", hint="Run as another user.")

    def nodes(self) -> list[Node]:
        # SIGINT: PostgreSQL takes SIGTERM as a request to wait until the last client has gone.
        return [Node("postgres-1", {"clients": 5432}, stop=signal.SIGINT)]

    def prepare(self, nodes: Sequence[Node], folder: Path) -> None:
        """Make the cluster's files, once."""
        own = folder / nodes[0].name
        if (own / "data").exists():
            return
        own.mkdir(parents=True, exist_ok=True)
        new = own / "data.new"  # renamed when done: what was cut short is done again, not used
        shutil.rmtree(new, ignore_errors=True)
        secret = own / "password"
        secret.write_text(PASSWORD)
        words = [str(self._bin / "initdb"), "--pgdata", str(new), "--username", USER, "--pwfile", str(secret)]
        words += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8"]
        done = subprocess.run([*self._as(), *words], env=self._env(), cwd=own, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        secret.unlink()
        if done.returncode:
            raise Unavailable(f"PostgreSQL's files could not be made: {(done.stderr or done.stdout).strip()[-2000:]}", hint=f"See {own}.")
        new.rename(own / "data")

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        _forget_the_dead(folder / "data")
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": node.ports["clients"],
            "unix_socket_directories": "",  # the path of a run folder may be longer than a socket's name can be
            "wal_level": "logical",
            "max_wal_senders": 20,
            "max_replication_slots": 20,
            "max_connections": 60,
            "max_prepared_transactions": 10,
            "shared_buffers": "64MB",
        }
        words = [str(self._bin / "postgres"), "-D", str(folder / "data")]
        return Command(
            [*self._as(), *words, *(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))], self._env()
        )

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.postgres(node.ports["clients"], USER)

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"PG_URI": uri(self.address(nodes))}

    def _as(self) -> tuple[str, ...]:
        return _NOT_ROOT if os.geteuid() == 0 else ()

    def _env(self) -> dict[str, str]:
        return plain_env(LC_ALL="C.UTF-8", **({"LD_LIBRARY_PATH": self._libraries} if self._libraries else {}))


def _forget_the_dead(data: Path) -> None:
    """Remove the note that a killed server left, once the last of its processes has gone: its id may still be a zombie's, and then
    PostgreSQL takes it for a server that runs. Each of them works in the data folder, and ends by itself when the first one has.
    """
    deadline = time.monotonic() + SECONDS
    while any(_works_in(entry, data) for entry in os.listdir("/proc") if entry.isdigit()):
        if time.monotonic() > deadline:
            return  # PostgreSQL will say that it runs
        time.sleep(0.02)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _works_in(pid: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder)
    except OSError:
        return False


def uri(address: str) -> str:
    return f"postgresql://{USER}:{PASSWORD}@{address}/postgres"


def installed(root: Path = Path("/")) -> Path | None:
    """The folder with the programs of the newest PostgreSQL below `root`; None where there is none that is new enough."""
    folders = {int(path.parts[-3]): path.parent for path in root.glob("usr/lib/postgresql/*/bin/initdb") if path.parts[-3].isdigit()}
    if root == Path("/") and not folders and (program := shutil.which("initdb")):
        words = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()
        folders = {int(word.partition(".")[0]): Path(program).resolve().parent for word in words if word[:1].isdigit()}
    return folders[newest] if folders and (newest := max(folders)) >= OLDEST else None
