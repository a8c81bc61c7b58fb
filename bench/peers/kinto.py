"""Kinto, a store of JSON documents over HTTP, in a process of its own that stays for all rounds."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers import environment
from headwater.core.errors import Unavailable

_PROGRAM = Path(__file__).with_name("kinto_serving.py")
HEADERS = f"Authorization: Basic {b64encode(b'bench:bench').decode()}\r\n"


class Kinto:
    """A server that runs. `url`: its address; `pid`: its process."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Unavailable(f"Kinto did not start: {output.read_text()[-500:]}", hint="Run `python tools/venv.py peers`.")
        answer = json.loads(line)
        self.version, self.url, self.pid = str(answer["version"]), f"http://127.0.0.1:{answer['port']}", process.pid


@contextmanager
def started(folder: Path, uri: str | None) -> Iterator[Kinto]:
    """Kinto over a database of PostgreSQL that is its own, or in memory; installed if need be and ended afterwards.

    Errors: `Unavailable`.
    """
    program = environment.python()
    own = Path(tempfile.mkdtemp(prefix="kinto-", dir=folder))
    output = own / "said"
    with output.open("w") as err:
        command = [str(program), "-P", str(_PROGRAM), uri or ""]
        process = subprocess.Popen(command, cwd=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield Kinto(process, output)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(own, ignore_errors=True)
