"""The jars of a server: accepted only when every digest is the committed one.

`jars.txt` lists every file with its digest. A folder of jars is whole or absent: it is filled and checked under another name, then
renamed. It is checked again before each use, so that a damaged cache is fetched anew and never run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import BadInput, Damaged
from headwater.spark.java import Java
from tools.services.ivy import Ivy
from tools.services.place import Place, locked

LIST = Path(__file__).parent / "jars.txt"


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One file of the public Java packages, and what its bytes must be."""

    server: str
    organisation: str
    name: str
    revision: str
    classifier: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.revision}{'-' if self.classifier else ''}{self.classifier}.jar"

    @property
    def line(self) -> str:
        return f"{self.sha256}  {self.server}  {':'.join(filter(None, (self.organisation, self.name, self.revision, self.classifier)))}\n"


@dataclass(frozen=True, slots=True)
class Jars:
    """All the jars of one server."""

    server: str
    jars: Sequence[Jar]

    @staticmethod
    def listed(server: str, path: Path = LIST) -> Jars:
        """What the committed list says."""
        return Jars(server, [jar for jar in read(path) if jar.server == server])

    def folder(self, place: Place) -> Path:
        mark = hashlib.sha256("".join(jar.line for jar in sorted(self.jars)).encode()).hexdigest()
        return place.cache / "jars" / f"{self.server}-{mark[:12]}"

    def have(self, place: Place, java: Java, env: Mapping[str, str] | None = None) -> Path:
        """The folder with exactly these jars, fetched if need be. Safe when several processes ask at once: one fetches, the rest wait.

        Errors: `Unreachable` when they cannot be had, `Damaged` when what came is not what the list says; then nothing is kept.
        """
        folder = self.folder(place)
        if not self.difference(folder):
            return folder
        with locked(folder.with_suffix(".lock"), place.say, f"another process is fetching {self.server}, waiting for it"):
            if folder.exists():
                problem = self.difference(folder)
                if not problem:
                    return folder
                place.say(f"the cached {self.server} is damaged ({problem}), fetching it again")
                shutil.rmtree(folder)
            started = time.monotonic()
            place.say(f"fetching {self.server}: {len(self.jars)} jars, once; this can take a minute")
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            try:
                coordinates = [(jar.organisation, jar.name, jar.revision, jar.classifier) for jar in self.jars]
                Ivy(new, place, java, os.environ if env is None else env).fetch(self.server, coordinates)
                if problem := self.difference(new):
                    raise Damaged(
                        f"What was fetched for {self.server} is refused: {problem}.",
                        hint="Try again. If it stays so, something on the way changes the files.",
                    )
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
            place.say(f"fetched {self.server} in {time.monotonic() - started:.0f} s into {folder}")
        return folder

    def difference(self, folder: Path) -> str:
        """How the folder differs from the list, in words; empty when it has exactly these files."""
        if not folder.is_dir():
            return "it is not there"
        wanted = {jar.file: jar.sha256 for jar in self.jars}
        files = {path.name for path in folder.iterdir()}
        if not wanted:
            return "its list is empty"
        for name in sorted(files ^ wanted.keys()):
            return f"{name} is missing" if name in wanted else f"{name} is not on the list"
        for name, digest in sorted(wanted.items()):
            if (actual := sha256(folder / name)) != digest:
                return f"{name} has SHA-256 {actual}, the list says {digest}"
        return ""


def read(path: Path = LIST) -> list[Jar]:
    """The list in `path`: a digest, a server and coordinates on each line."""
    jars = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            digest, server, coordinates = line.split()
            organisation, name, revision, classifier = [*coordinates.split(":"), ""][:4]
            jars.append(Jar(server, organisation, name, revision, classifier, digest))
    return jars


def pin(server: str, place: Place, java: Java, path: Path = LIST) -> Jars:
    """Resolve what `ivy.xml` asks for, and put what results into the list, with the digests of what came."""
    scratch = place.cache / "jars" / f"{server}.pin"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        Ivy(scratch, place, java, os.environ).resolve(server)
        new = []
        for file in scratch.iterdir():
            organisation, name, revision, classifier = [*file.name.removesuffix(".jar").split("~"), ""][:4]
            new.append(Jar(server, organisation, name, revision, classifier, sha256(file)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if len({jar.file for jar in new}) < len(new):
        raise BadInput(f"Two jars of {server} have the same file name.", hint="Exclude one of them in ivy.xml.")
    others: Iterable[Jar] = (jar for jar in read(path) if jar.server != server)
    head = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
    path.write_text(head + "".join(jar.line for jar in sorted([*others, *new])))
    return Jars(server, new)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
