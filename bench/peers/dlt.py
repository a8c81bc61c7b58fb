"""dlt, in a process of its own that stays for all rounds: what it has to import is not measured, nor is ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from bench.peers.environment import python
from headwater.core.errors import Differs, Unavailable

Move = Literal["jsonl → jsonl", "jsonl → parquet", "pyarrow", "connectorx"]
_PROGRAM = Path(__file__).with_name("dlt_moves.py")


class Dlt:
    """Asks the process for moves, one after the other."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, output: Path) -> None:
        self._process, self._folder, self._said = process, folder, output
        self.version = str(self._answer()["version"])

    def move(self, move: Move, source: str, *, table: str = "") -> tuple[float, Path]:
        """The seconds that a move took, and the folder that it wrote; it is there until the next one."""
        out, work = self._folder / "dlt-out", self._folder / "dlt-work"
        for folder in (out, work):
            shutil.rmtree(folder, ignore_errors=True)  # dlt keeps what it has done, and would not do it again
            folder.mkdir()
        request = {"move": move, "source": source, "out": str(out), "work": str(work), "table": table}
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise Differs(f"dlt failed: {answer['error']}", hint="See bench/peers/dlt_moves.py.")
        return float(answer["seconds"]), out / "out" / "orders"

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(f"dlt's process has ended: {self._said.read_text()[-500:]}", hint="Run `python tools/venv.py peers`.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(folder: Path) -> Iterator[Dlt]:
    """dlt, installed if need be and ended afterwards. Errors: `Unavailable` where it cannot be had."""
    program = python()
    own = Path(tempfile.mkdtemp(prefix="dlt-", dir=folder))
    output = own / "said"
    # -P: beside the program lies a module of our own that has dlt's name.
    with output.open("w") as err:
        process = subprocess.Popen(
            [str(program), "-P", str(_PROGRAM)], cwd=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True
        )
    try:
        yield Dlt(process, own, output)
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
