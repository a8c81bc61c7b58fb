"""The library eventsourcing, in a process of its own that stays for all rounds."""

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

_PROGRAM = Path(__file__).with_name("eventsourcing_events.py")


class EventSourcing:
    """Asks the process for rounds, one after the other. Errors of each: `Differs`."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self._process, self._said = process, output
        self.version = str(self._answer()["version"])

    def appends(self, threads: int, each: int, *, events: int = 1) -> Sample:
        """So many threads that each save their aggregate so many times, with so many new events, and wait until it is synced."""
        return self._round(threads * each * events, {"do": "append", "threads": threads, "each": each, "events": events})

    def fill(self, journals: int, events: int) -> None:
        """Aggregates that `reads` reads."""
        self._round(0, {"do": "fill", "journals": journals, "events": events})

    def reads(self, journals: int, events: int) -> Sample:
        """The events of so many aggregates, decoded, with so many events each."""
        return self._round(journals * events, {"do": "read", "journals": journals, "events": events})

    def _round(self, amount: int, asked: dict[str, object]) -> Sample:
        assert self._process.stdin is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._answer()
        if "error" in answer:
            raise Differs(f"eventsourcing failed: {answer['error']}", hint=f"See {_PROGRAM.name} in bench/peers.")
        return Sample(amount, float(answer["seconds"]), float(answer["cpu"]))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            output = self._said.read_text()[-500:]
            raise Unavailable(f"The process of eventsourcing has ended: {output}", hint="Run `python tools/venv.py peers`.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(folder: Path, payload: object) -> Iterator[EventSourcing]:
    """eventsourcing with an empty database below `folder`, installed if need be and ended afterwards. Errors: `Unavailable`."""
    program = environment.python()
    own = Path(tempfile.mkdtemp(prefix="eventsourcing-", dir=folder))
    output = own / "said"
    with output.open("w") as err:
        command = [str(program), "-P", str(_PROGRAM), str(own / "events.db"), json.dumps(payload)]
        process = subprocess.Popen(command, cwd=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        yield EventSourcing(process, output)
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
