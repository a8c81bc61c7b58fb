"""MariaDB, which stands for MySQL's protocol: row based binary log on, from the machine's programs or from Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from headwater.core.errors import Unavailable, Unreachable
from tools.services import debian, probe
from tools.services.place import Place
from tools.services.server import Command, Node, Server, plain_env

USER = PASSWORD = DATABASE = "headwater"
# Run by the server itself before it listens, each time: the same afterwards as after the first.
_FIRST = f"""\
CREATE DATABASE IF NOT EXISTS {DATABASE};
CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION;
"""
_TABLES = ("system_tables", "performance_tables", "system_tables_data")


class MariaDB(Server):
    kind: ClassVar[str] = "mariadb"

    def __init__(self, size: int = 1) -> None:
        super().__init__(size)
        self._root = Path("/")

    def have(self, place: Place) -> None:
        if not _program(Path("/")).exists():
            self._root = debian.have(place, "mariadb", ["mariadb-server-core"])
        if not _program(self._root).exists():
            raise Unreachable("Debian's packages have no MariaDB.", hint="Install mariadb-server-core.")

    def nodes(self) -> list[Node]:
        return [Node("mariadb-1", {"clients": 3306})]

    def prepare(self, nodes: Sequence[Node], folder: Path) -> None:
        """Make the system tables, once."""
        own = folder / nodes[0].name
        if (own / "data").exists():
            return
        new = own / "data.new"  # renamed when done: what was cut short is done again, not used
        shutil.rmtree(new, ignore_errors=True)
        (new / "mysql").mkdir(parents=True)
        script = ["SET @auth_root_socket = 'root', @skip_auth_anonymous = 1;", "USE mysql;"]
        script += [self._script(name).read_text() for name in _TABLES]
        words = [*self._words(new), "--bootstrap", "--skip-log-bin"]
        done = subprocess.run(words, input="\n".join(script), env=self._env(), cwd=own, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"MariaDB's system tables could not be made: {done.stderr.strip()[-2000:]}", hint=f"See {own}.")
        new.rename(own / "data")

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        first = folder / "first.sql"
        first.write_text(_FIRST)
        settings = {
            "bind-address": "127.0.0.1",
            "port": node.ports["clients"],
            "socket": "server.sock",  # inside the data folder: a whole path may be longer than a socket's name can be
            "init-file": first,
            "server-id": 1,
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            "sync-binlog": 1,  # acknowledged changes are in the log after a crash
            "max-connect-errors": 1_000_000,  # our own probes hang up without a word
        }
        return Command([*self._words(folder / "data"), *(f"--{name}={value}" for name, value in settings.items())], self._env())

    def ready(self, node: Node, nodes: Sequence[Node]) -> bool:
        return probe.mysql(node.ports["clients"])

    def address(self, nodes: Sequence[Node]) -> str:
        return f"127.0.0.1:{nodes[0].ports['clients']}"

    def settings(self, nodes: Sequence[Node]) -> dict[str, str]:
        return {"MYSQL_URI": uri(self.address(nodes))}

    def _words(self, data: Path) -> list[str]:
        share = self._root / "usr/share/mysql"
        words = [
            str(_program(self._root)),
            "--no-defaults",
            f"--datadir={data}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share}/charsets",
        ]
        words += [f"--plugin-dir={self._root / 'usr/lib/mysql/plugin'}", "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M"]
        return [*words, "--innodb-log-file-size=32M", "--skip-name-resolve"] + (["--user=root"] if os.geteuid() == 0 else [])

    def _script(self, name: str) -> Path:
        folder = self._root / "usr/share/mysql"
        return next(
            (path for brand in ("mariadb", "mysql") if (path := folder / f"{brand}_{name}.sql").exists()), folder / f"mysql_{name}.sql"
        )

    def _env(self) -> dict[str, str]:
        return plain_env(**({} if self._root == Path("/") else {"LD_LIBRARY_PATH": debian.libraries(self._root)}))


def uri(address: str) -> str:
    return f"mysql://{USER}:{PASSWORD}@{address}/{DATABASE}"


def _program(root: Path) -> Path:
    return root / "usr/sbin/mariadbd"
