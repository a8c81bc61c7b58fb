from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headwater.core.errors import Unavailable
from headwater.spark.java import MODULE, adapted, cache_folder, version_of


def program(path: Path, lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def echo_home(home: Path) -> Path:
    """A home whose `java` prints its arguments, one per line, each in brackets."""
    program(home / "bin" / "java", 'for word do printf "[%s]\\n" "$word"; done')
    (home / "release").write_text('JAVA_VERSION="21"\n')
    return home


@pytest.mark.parametrize(("said", "version"), [('openjdk version "25" 2025-09-16', 25), ("hello", None)])
def test_the_version_is_what_java_says(tmp_path: Path, said: str, version: int | None) -> None:
    program(tmp_path / "bin" / "java", f"echo '{said}' >&2")
    assert version_of(tmp_path) == version


def test_the_wrapper_drops_that_argument_alone(tmp_path: Path) -> None:
    home = adapted(echo_home(tmp_path / "it's a home"), tmp_path / "a cache")
    words = ["-Xmx1g", "", "two words", "it's", 'a "quoted" one', "$HOME", "*", "line\nbreak", "--add-modules=other", "-"]
    done = subprocess.run([home / "bin" / "java", *words[:3], MODULE, *words[3:]], capture_output=True, text=True)
    assert done.stdout == "".join(f"[{word}]\n" for word in words)


def test_it_is_made_once(tmp_path: Path) -> None:
    home = echo_home(tmp_path / "home")
    made = adapted(home, tmp_path / "cache")
    before = (made / "bin" / "java").stat()
    assert adapted(home, tmp_path / "cache") == made
    assert (made / "bin" / "java").stat() == before


def test_another_version_in_the_same_place_is_adapted_anew(tmp_path: Path) -> None:
    home = echo_home(tmp_path / "home")
    made = adapted(home, tmp_path / "cache")
    (home / "release").write_text('JAVA_VERSION="25"\n')
    assert adapted(home, tmp_path / "cache") != made


def test_a_damaged_or_half_made_one_is_made_again(tmp_path: Path) -> None:
    home = echo_home(tmp_path / "home")
    made = adapted(home, tmp_path / "cache")
    (made / "bin" / "java").write_text("")
    (made.parent / "new-of-a-process-that-died").mkdir()
    assert adapted(home, tmp_path / "cache") == made
    assert subprocess.run([made / "bin" / "java", "x"], capture_output=True).stdout == b"[x]\n"
    assert sorted(path.name for path in made.parent.iterdir()) == sorted([made.name, "lock"])


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(Unavailable, match="HEADWATER_CACHE"):
        adapted(echo_home(tmp_path / "home"), tmp_path / "cache")


def test_the_cache_folder() -> None:
    assert cache_folder({"HEADWATER_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/headwater")
    assert cache_folder({"XDG_CACHE_HOME": "relative", "HOME": "/c"}) == Path("/c/.cache/headwater")
    assert cache_folder({"HOME": "/c"}) == Path("/c/.cache/headwater")
