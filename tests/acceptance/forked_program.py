"""Runs `headwater` commands in forks of one warm process, which saves the second that Python needs to start.

The warm process imports what the commands need and waits. It forks for every command: the child has its own folder, environment,
standard streams and exit code, and ends as the program would. No command leaves anything to the next. Tests that depend on how a
program starts (signals, a first import that fails) run the program itself.
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


class ForkedProgram:
    """Runs commands, one at a time. Its maker closes it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()])
        self._socket = ours

    def __call__(self, *words: str, home: Path, env: dict[str, str], stdin: str = "", timeout: float = 120) -> Ran:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            command = json.dumps({"words": words, "home": str(home), "env": env}).encode()
            self._socket.settimeout(timeout)
            socket.send_fds(self._socket, [command], [given.fileno(), out.fileno(), err.fileno()])
            try:
                code = int(self._socket.recv(64))
            except TimeoutError:
                self._process.kill()  # a late answer would be taken for that of the next command
                raise
            return Ran(code, _text(out), _text(err))

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode()
    return text


def _serve(requests: socket.socket) -> None:
    """In the warm process: fork for every command, and send its exit code back."""
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
        command, fds, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not command:
            return
        child = os.fork()
        if child == 0:
            requests.close()
            _run(json.loads(command), fds)
        for fd in fds:
            os.close(fd)
        _, status = os.waitpid(child, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(command: dict[str, Any], fds: list[int]) -> None:
    """In the child: become the command."""
    for place, fd in enumerate(fds):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(command["env"])
    sys.path[:] = [*filter(None, command["env"].get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    os.chdir(command["home"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["headwater", *command["words"]]
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
