"""Runs `headwater` commands and servers in forks of one warm process, which saves the second that Python needs to start.

The warm process imports what the commands need and waits. It forks for every command: the child has its own folder, environment,
standard streams and exit code, and ends as the program would. No command leaves anything to the next. Tests that depend on how a
program starts (a first import that fails, what is imported) run the program itself.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from program import PROGRAM, Ran

_STARTS = ([PROGRAM], [sys.executable, "-m", "headwater.cli"])  # how a command begins that can be run in a fork
_PR_SET_CHILD_SUBREAPER = 36
_FOR_SHELLS = f"""\
#!{sys.executable} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as warm:
    warm.connect(os.path.join(os.path.dirname(__file__), "socket"))
    command = {{"words": sys.argv[1:], "home": os.getcwd(), "env": dict(os.environ), "new_session": False}}
    socket.send_fds(warm, [json.dumps(command).encode()], [0, 1, 2])
    code = int(warm.recv(64))
sys.exit(code if code >= 0 else 128 - code)
"""


class ForkedProgram:
    """Runs commands; its maker closes it. Safe for several threads.

    `bin` is a folder with a program `headwater` for shells, which has its command run by the warm process. Signals do not reach it there.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.bin = Path(self._folder.name)
        script = self.bin / "headwater"
        script.write_text(_FOR_SHELLS)
        script.chmod(0o755)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as shells:
            shells.bind(str(self.bin / "socket"))
            shells.listen()
            passed = [theirs.fileno(), shells.fileno()]
            self._process = subprocess.Popen([sys.executable, __file__, *map(str, passed)], pass_fds=passed)
        self._socket = ours
        self._lock = threading.Lock()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def __call__(self, *words: str, home: Path, env: dict[str, str], stdin: str = "", timeout: float = 120) -> Ran:
        pipe = subprocess.PIPE
        with self.popen([PROGRAM, *words], cwd=home, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            except BaseException:
                process.kill()
                raise
        return Ran(process.returncode, out, err)

    def popen(self, command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        """As `subprocess.Popen`, for a command that begins as `headwater` does: this process's child, with its own process id."""
        return _ForkedProcess(self, command, cwd=cwd or Path.cwd(), env=dict(os.environ if env is None else env), **options)

    def fork(self, command: Mapping[str, object], streams: Sequence[int]) -> int:
        """The process id of a new child of this process that runs the command."""
        with self._lock, self._adopting():
            socket.send_fds(self._socket, [json.dumps(command).encode()], streams)
            pid = self._socket.recv(64)
        assert pid, "the warm process has ended"
        return int(pid)

    @contextmanager
    def _adopting(self) -> Iterator[None]:
        """Orphans below this process become its children. Only for the moment: others' orphans are nobody's business here."""
        assert self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        try:
            yield
        finally:
            self._prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)
        self._folder.cleanup()


class _ForkedProcess(subprocess.Popen[Any]):
    """A process that is started by a fork. All else (pipes, waiting, signals) is Popen's own."""

    def __init__(self, program: ForkedProgram, command: Sequence[str], **options: Any) -> None:
        self._program = program
        super().__init__(command, **options)

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:  # takes what Popen gives it, by place
        cwd, env, streams, new_session = given[4], given[5], given[9:15], given[20]
        start = next(start for start in _STARTS if list(args[: len(start)]) == start)
        command = {"words": list(args[len(start) :]), "home": str(cwd), "env": env, "new_session": new_session}
        stdin, stdout, stderr = streams[0], streams[3], streams[5]
        try:
            theirs = [number if fd < 0 else fd for number, fd in enumerate((stdin, stdout, stderr))]
            self.pid = self._program.fork(command, theirs)
        finally:
            self._close_pipe_fds(*streams)  # type: ignore[attr-defined]
        self._child_created = True


def _serve(requests: socket.socket, shells: socket.socket) -> None:
    """In the warm process: fork for every command, until the tests hang up."""
    _warm_up()
    while True:
        ready, _, _ = select.select([requests, shells], [], [])
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if requests not in ready:
            with shells.accept()[0] as shell:
                _answer_shell(shell, [requests, shells])
        elif not _answer_test(requests, [requests, shells]):
            return


def _answer_test(requests: socket.socket, ours: list[socket.socket]) -> bool:
    """Tell the command's process id once it is nobody's child, so that the test's process gets it. False when there is no command."""
    command, fds, _, _ = socket.recv_fds(requests, 1 << 20, 3)
    if not command:
        return False
    told, tell = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.close(told), os.close(tell)
            _run(json.loads(command), fds, ours)
        os.write(tell, str(child).encode())
        os._exit(0)
    os.waitpid(between, 0)
    requests.send(os.read(told, 64))
    for fd in (*fds, told, tell):
        os.close(fd)
    return True


def _answer_shell(shell: socket.socket, ours: list[socket.socket]) -> None:
    """Tell the command's exit code, when it has ended: to that end a process waits for it, while we go on."""
    command, fds, _, _ = socket.recv_fds(shell, 1 << 20, 3)
    if command and os.fork() == 0:
        child = os.fork()
        if child == 0:
            _run(json.loads(command), fds, [*ours, shell])
        with suppress(OSError):
            shell.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        os._exit(0)
    for fd in fds:
        os.close(fd)


# What these import, and they are tried: most of what commands need is imported by nobody else, and only when it is used.
_TYPICAL = (
    ["log", "create", "warm"],
    ["log", "append", "warm", "value"],
    ["log", "show", "warm", "--json"],
    ["log", "show", "warm"],
    ["log", "show", "--help"],
    ["log", "check"],
    ["log", "frobnicate"],
    ["pipeline", "run", "warm.py"],
    ["pipeline", "step", "warm", "out", "--file", "warm.py"],
    ["pipeline", "status", "warm", "--json"],
    ["pipeline", "list"],
    ["doctor"],
)
_SERVER = ("headwater.cli.serve", "headwater.server.app", "uvicorn.protocols.http.httptools_impl", "uvloop", "confluent_kafka.admin")
_PIPELINE = """
from headwater.pipeline import Pipeline, python
from headwater.pipeline.adaptors import file, sqlite
p = Pipeline("warm")
rows = p.source("in", file("in.jsonl"))
rows.transform(python(lambda message: message, keeps_id=True)).save("out", sqlite("out.db", table="t"))
rows.save("folder", file("out/", format="jsonl"))
"""


def _warm_up() -> None:
    """Import whatever typical commands import. Each is run in a fork, which tells what it has imported."""
    wanted = dict.fromkeys(_SERVER)
    with tempfile.TemporaryDirectory() as home, open(os.devnull, "r+") as nothing:
        Path(home, "warm.py").write_text(_PIPELINE)
        Path(home, "in.jsonl").write_text('{"_id": 1}\n')
        env = {**os.environ, "HEADWATER_SPARK__START": "never"}
        for words in _TYPICAL:
            told, tell = os.pipe()
            child = os.fork()
            if child == 0:
                atexit.register(lambda tell=tell: os.write(tell, "\n".join(sys.modules).encode()))
                _run({"words": words, "home": home, "env": env, "new_session": False}, [os.dup(nothing.fileno()) for _ in range(3)], [])
            os.close(tell)
            with os.fdopen(told) as modules:
                wanted |= dict.fromkeys(modules.read().split())
            os.waitpid(child, 0)
    for name in wanted:
        if name != "__main__":
            with suppress(Exception):
                importlib.import_module(name)
    gc.freeze()  # a child's collections need not touch, and so copy, what the commands share


def _run(command: dict[str, Any], fds: list[int], ours: list[socket.socket]) -> None:
    """In the child: become the command. `ours`: the warm process's own sockets."""
    for one in ours:
        one.close()
    if command["new_session"]:
        os.setsid()
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
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
