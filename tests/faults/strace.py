"""strace: what a program asks of the system, recorded in order, or answered with errors.

The machine's own is used, else Debian's package, unpacked in the cache folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.services import debian
from tools.services.place import Place

from headwater.core.errors import Unsupported

CHANGES = [
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "copy_file_range", "sendfile"),
    *("ftruncate", "truncate", "fallocate", "fsync", "fdatasync", "sync", "syncfs"),
    *("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "link", "linkat", "mkdir", "mkdirat"),
]
DESCRIPTORS = ["openat", "open", "creat", "close", "dup", "dup2", "dup3", "fcntl", "clone", "clone3", "fork", "vfork"]
_LINE = re.compile(r"(\d+) +(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*)|[+-]{3} .*)", re.DOTALL)
_RESULT = re.compile(r"(.*)\) += (-?\d+|0x[0-9a-f]+|\?)(?: .*)?", re.DOTALL)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_UNFINISHED = " <unfinished ...>"


@dataclass(frozen=True)
class Strace:
    """The program, and what its environment needs."""

    path: str
    libraries: str

    def run(self, options: Sequence[str], words: Sequence[str], *, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run `words` under strace, and everything that it forks."""
        # The program's own environment stays as it is: libraries of another distribution are for strace alone.
        env = {**os.environ, "LD_LIBRARY_PATH": self.libraries} if self.libraries else dict(os.environ)
        unset = ["-E", "LD_LIBRARY_PATH"] if self.libraries else []
        return subprocess.run(
            [self.path, "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", *unset, *options, *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
        )


def find(place: Place) -> Strace:
    """Errors: `Unreachable` where it is neither installed nor to be fetched, `Unsupported` where this machine lets nobody be traced."""
    path, libraries = shutil.which("strace"), ""
    if path is None:
        folder = debian.have(place, "strace", ["strace"])
        path, libraries = str(folder / "usr/bin/strace"), debian.libraries(folder)
    found = Strace(path, libraries)
    done = found.run(["-e", "trace=none"], [sys.executable, "-c", ""])
    if done.returncode:
        raise Unsupported(
            f"strace cannot trace here: {done.stderr.strip()[-300:]}", hint="Allow ptrace, as root or by the sandbox's options."
        )
    return found


@dataclass(frozen=True)
class Call:
    """One system call, or its beginning alone, or its end alone, where others came between."""

    process: int
    name: str
    arguments: str
    result: int | None  # None: not yet known, or failed to return
    begins: bool
    ends: bool

    @property
    def strings(self) -> list[bytes]:
        """What the arguments hold in quotes, in order."""
        found = []
        for text, cut in _STRING.findall(self.arguments):
            if cut:
                raise ValueError(f"strace cut a string of {self.name}: its option -s is too small")
            found.append(bytes.fromhex(text.replace("\\x", "")))
        return found

    @property
    def plain(self) -> list[str]:
        """The arguments with what is in quotes or brackets left out."""
        bare = re.sub(r"\[.*\]", "[]", _STRING.sub('""', self.arguments), flags=re.DOTALL)
        return [one.strip() for one in bare.split(",")]


def record(strace: Strace, words: Sequence[str], trace: Path) -> list[Call]:
    """Run `words` and return what was asked of the system, in order. The file `trace` is left for people to look at."""
    options = ["-o", str(trace), "-xx", "-v", "-s", str(8 << 20), "-e", f"trace={','.join(CHANGES + DESCRIPTORS)}"]
    done = strace.run(options, words)
    if done.returncode:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr[-3000:]}")
    return list(parse(trace))


def parse(trace: Path) -> Iterator[Call]:
    """The calls of a trace. One during which another process came to speak is given twice: as it begins, and as it ends."""
    waiting: dict[int, tuple[str, str]] = {}
    with trace.open() as file:
        for line in file:
            match = _LINE.fullmatch(line.rstrip("\n"))
            if match is None:
                raise ValueError(f"strace wrote a line that is not understood: {line[:300]}")
            process = int(match[1])
            if match[2] and match[3].endswith(_UNFINISHED):
                waiting[process] = match[2], match[3].removesuffix(_UNFINISHED)
                yield Call(process, match[2], waiting[process][1], None, begins=True, ends=False)
            elif match[2]:
                yield _whole(process, match[2], match[3], begins=True)
            elif match[4]:
                name, first = waiting.pop(process)
                yield _whole(process, name, first + match[5], begins=False)


def _whole(process: int, name: str, rest: str, *, begins: bool) -> Call:
    match = _RESULT.fullmatch(rest)
    if match is None:
        raise ValueError(f"strace wrote a call of {name} that is not understood: {rest[:300]}")
    return Call(process, name, match[1], None if match[2] == "?" else int(match[2], 0), begins=begins, ends=True)
