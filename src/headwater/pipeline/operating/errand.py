"""Sending for an operator in a process of its own, which runs the pipeline's file where the pipeline itself was run.

Whoever serves others must not run a pipeline's file inside itself: relative paths in it would mean other files than they meant to the
run, and a message would count as taken by a sink that never got it; and what the file does to its process would stay. So a server and the
Python door start `python -m headwater.pipeline.operating.errand` in the run's folder: the errand on its standard input, the answer on
its output. A search for namespaces by an expression that may take for ever is done so, too: a process can be ended,
a thread cannot.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

import msgspec

from headwater.core.errors import HeadwaterError
from headwater.log.address import LogAddress
from headwater.pipeline.operating.answers import written

Verb = Literal["step", "replay", "retry", "verify", "messages"]


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done: a method of `Desk` with its arguments. No file is named: it is that of the pipeline's last run."""

    log: LogAddress
    pipeline: str
    who: str
    verb: Verb
    arguments: dict[str, Any] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it went: the answer as it is written, or an error."""

    answer: msgspec.Raw = msgspec.Raw(b"null")
    code: str = ""
    message: str = ""
    hint: str = ""


def done(errand: Errand) -> Outcome:
    """Do it, in this process."""
    from headwater.log.opening import open_log
    from headwater.pipeline.operating.desk import Desk

    try:
        looks = errand.verb in ("verify", "messages") or bool(errand.arguments.get("dry_run"))
        with open_log(errand.log, read_only=looks) as log:
            answer = getattr(Desk(log, errand.pipeline, who=errand.who), errand.verb)(**errand.arguments)
    except HeadwaterError as error:
        return Outcome(code=error.code, message=error.message, hint=error.hint)
    return Outcome(answer=msgspec.Raw(written(answer)))


def main() -> None:
    """Reads an errand, writes its outcome. What the pipeline's file prints goes to the errors, not into the answer."""
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    answers = os.dup(1)
    os.dup2(2, 1)
    outcome = written(done(errand))
    with open(answers, "wb") as out:
        out.write(outcome)


if __name__ == "__main__":
    main()
