"""System calls fail from outside of the process, whichever code made them: errors are ours, and what was acknowledged is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from power_replay import Story, examine
from strace import Strace

WORKLOAD = Path(__file__).with_name("inject_workload.py")
CALLS = {  # and the errors that a disk, a full one, a read-only one or a process with too many files answers with
    "openat": ["EMFILE", "EROFS", "EIO"],
    "pwritev2": ["EIO", "ENOSPC", "EROFS"],
    "fdatasync": ["EIO", "ENOSPC"],
    "fsync": ["EIO", "ENOSPC"],
    "ftruncate": ["EIO", "EROFS"],
    "rename": ["EIO", "ENOSPC", "EROFS"],
    "unlink": ["EIO", "EROFS"],
    "mkdir": ["ENOSPC", "EROFS"],
    "read": ["EIO"],
    "pread64": ["EIO"],
}
ALL = os.environ.get("SOAK_INJECTIONS") == "all"
SAMPLE = 2  # lives per kind of call where not all are wanted
WHEN = 4000  # more than a life makes of any kind, and more than the start of the interpreter


def run(strace: Strace, root: Path, options: list[str], lives: list[str]) -> None:
    words = [sys.executable, str(WORKLOAD), str(root), str(WHEN), *lives]
    done = strace.run(["-e", f"trace={','.join(CALLS)}", *options], words, timeout=3600)
    assert not done.returncode, done.stderr[-3000:]


@pytest.fixture(scope="module")
def counted(strace: Strace, tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How many calls of each kind a life makes."""
    root = tmp_path_factory.mktemp("counted")
    run(strace, root, ["-o", str(root / "trace")], ["all:0"])
    process = json.loads((root / "all:0.notes").read_text().splitlines()[0])["process"]
    found = Counter(re.findall(rf"^{process} +(\w+)\(", (root / "trace").read_text(), re.MULTILINE))
    assert all(0 < found[name] < WHEN for name in CALLS), found
    return found


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("turn", range(3) if ALL else [0])
def test_errors_are_ours_and_what_was_acknowledged_is_there(
    memory_path: Path, tmp_path: Path, strace: Strace, counted: Counter[str], turn: int, lasting: bool
) -> None:
    random = Random(f"{turn}{lasting}")
    answers = {name: errors[turn % len(errors)] if ALL else random.choice(errors) for name, errors in CALLS.items()}
    lives = []
    for name in CALLS:
        every = range(1, counted[name] + 1)
        lives += [f"{name}:{number}" for number in (every if ALL else sorted(random.sample(every, min(SAMPLE, len(every)))))]
    plus = "+" if lasting else ""
    run(strace, memory_path, [f"--inject={name}:error={answers[name]}:when={WHEN}{plus}" for name in CALLS] + ["-o", "/dev/null"], lives)
    problems = []
    for life in lives:
        name = life.partition(":")[0]
        what = f"{life} of {counted[name]} answered {answers[name]}{' from then on' * lasting}"
        problems += [f"{what}: {problem}" for problem in _looked_at(memory_path, life)]
    if problems:
        kept = shutil.copytree(memory_path, tmp_path / "kept")
        pytest.fail(f"{len(problems)} problems; the files are kept in {kept}:\n" + "\n".join(problems), pytrace=False)


def _looked_at(root: Path, life: str) -> list[str]:
    story = Story()
    lines = [json.loads(line) for line in (root / f"{life}.notes").read_text().splitlines()]
    for line in lines:
        story.hear(line)
    problems = [f"a raw error: {one}" for one in story.errors]
    if not lines or "ended" not in lines[-1]:
        problems.append(f"the process died after {lines[-1:]}")
    return problems + examine(root / life, story, Random(life))
