"""Queues that keep their jobs in PostgreSQL, each in a process of its own that stays for all rounds."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from bench.case import Sample
from bench.peers import environment
from headwater.core.errors import Differs, Unavailable

Peer = Literal["procrastinate", "awa"]


class Jobs:
    """Asks the process for rounds of jobs, one after the other."""

    def __init__(self, peer: Peer, process: subprocess.Popen[str], output: Path) -> None:
        self._peer, self._process, self._said = peer, process, output
        self.version = str(self._answer()["version"])

    def round(self, jobs: int, concurrency: int, data: int) -> Sample:
        """So many jobs, put before, that one worker runs, so many at a time. Errors: `Differs`."""
        assert self._process.stdin is not None
        print(json.dumps({"jobs": jobs, "concurrency": concurrency, "data": data}), file=self._process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise Differs(f"{self._peer} failed: {answer['error']}", hint=f"See bench/peers/{self._peer}_jobs.py.")
        return Sample(jobs, float(answer["seconds"]), float(answer["cpu"]))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            output = self._said.read_text()[-500:]
            raise Unavailable(f"The process of {self._peer} has ended: {output}", hint="Run `python tools/venv.py peers`.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(peer: Peer, folder: Path, uri: str) -> Iterator[Jobs]:
    """A peer over a database that is its own, installed if need be and ended afterwards. Errors: `Unavailable`."""
    program = environment.python()
    own = Path(tempfile.mkdtemp(prefix=f"{peer}-", dir=folder))
    output = own / "said"
    with output.open("w") as err:
        command = [str(program), "-P", str(Path(__file__).with_name(f"{peer}_jobs.py")), uri]
        process = subprocess.Popen(command, cwd=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield Jobs(peer, process, output)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(own, ignore_errors=True)
