"""RocksDB, in a process of its own that stays for all rounds."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.case import Sample
from bench.peers import environment
from headwater.core.errors import Differs, Unavailable

_PROGRAM = Path(__file__).with_name("rocksdb_writes.py")


class RocksDb:
    """Asks the process for rounds of writes, one after the other."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self._process, self._said = process, output
        self.version = str(self._answer()["version"])

    def writes(self, threads: int, each: int, key: int, value: int, *, batch: int = 1) -> Sample:
        """So many threads that each write so many batches of records, and wait until each is synced. Errors: `Differs`."""
        assert self._process.stdin is not None
        asked = {"threads": threads, "each": each, "key": key, "value": value, "batch": batch}
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise Differs(f"RocksDB failed: {answer['error']}", hint="See bench/peers/rocksdb_writes.py.")
        return Sample(threads * each * batch, float(answer["seconds"]), float(answer["cpu"]))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(f"RocksDB's process has ended: {self._said.read_text()[-500:]}", hint="Run `python tools/venv.py peers`.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(folder: Path) -> Iterator[RocksDb]:
    """RocksDB with an empty database below `folder`, installed if need be and ended afterwards. Errors: `Unavailable`."""
    program = environment.python()
    own = Path(tempfile.mkdtemp(prefix="rocksdb-", dir=folder))
    output = own / "said"
    with output.open("w") as err:
        command = [str(program), "-P", str(_PROGRAM), str(own / "database")]
        process = subprocess.Popen(command, cwd=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield RocksDb(process, output)
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
