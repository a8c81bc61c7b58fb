"""`headwater` commands as processes of their own, without the second that Python needs to begin each.

One process imports what the commands need and then waits. For every command it is forked: the child has its own folder, environment,
standard streams and exit code, and ends like the program would. Nothing of one command is left for the next. What depends on how a
program is started (signals, a first import that goes wrong) is tested with the program itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from program import Ran


class Nursery:
    """Runs commands, one at a time. Whoever makes one closes it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        self._socket = ours

    def __call__(self, *words: str, home: Path, env: dict[str, str], stdin: str = "", timeout: float = 120) -> Ran:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            asked = json.dumps({"words": words, "home": str(home), "env": env}).encode()
            self._socket.settimeout(timeout)
            socket.send_fds(self._socket, [asked], [given.fileno(), out.fileno(), err.fileno()])
            try:
                code = int(self._socket.recv(64))
            except TimeoutError:
                self._process.kill()  # a late answer would be taken for that of the next command
                raise
            return Ran(code, *(_text(one) for one in (out, err)))

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode()
    return text


def _serve(door: socket.socket) -> None:
    """In the process that waits: fork for every command, and say how it ended."""
    # ruff: noqa: F401 (imported here so that no command has to)
    import pyarrow.compute
    import pyspark.cloudpickle
    import rich.table

    import headwater.adaptors.file.adaptor
    import headwater.adaptors.sqlite.adaptor
    import headwater.cli.app
    import headwater.pipeline.adaptors
    import headwater.pipeline.loading
    import headwater.pipeline.operating.manual_delivery
    import headwater.pipeline.running.run

    while True:
        asked, fds, _, _ = socket.recv_fds(door, 1 << 20, 3)
        if not asked:
            return
        child = os.fork()
        if child == 0:
            door.close()
            _run(json.loads(asked), fds)
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(child, 0)
        door.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(asked: dict[str, Any], fds: list[int]) -> None:
    """In the child: become the command."""
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[:] = [*filter(None, asked["env"].get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    os.chdir(asked["home"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["headwater", *asked["words"]]
    from headwater.cli import main

    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
