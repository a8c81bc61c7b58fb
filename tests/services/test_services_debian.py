"""Packages fetched by apt and unpacked without installing them. apt is played by a script, so that no test needs the network for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tools.services import debian
from tools.services.place import Place

from headwater.core.errors import Unreachable

APT = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
  *" update") {update} ;;
  *--simulate*)
    echo "Inst tiny (1:2.0 Debian:12 [all])"
    echo "Inst libtiny [0.9] (1.0 Debian:12 [amd64])"
    echo "Conf tiny (1:2.0 Debian:12 [all])" ;;
  *" download "*) cp {deb} . ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "cache", tmp_path / "run", say=lambda line: None, wait=lambda seconds: None)


def play(folder: Path, monkeypatch: pytest.MonkeyPatch, update: str = "true") -> Path:
    """Put an apt-get of ours before the real one; returns the list of what it was asked."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here")
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: tiny\nVersion: 2.0\nArchitecture: all\nMaintainer: none <none@example.com>\nDescription: x\n"
    )
    (tree / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/tiny").write_text("#!/bin/sh\necho here\n")
    (tree / "usr/bin/tiny").chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(folder / "tiny.deb")], check=True, capture_output=True)
    (folder / "bin").mkdir()
    calls = folder / "calls"
    (folder / "bin/apt-get").write_text(APT.format(calls=calls, deb=folder / "tiny.deb", update=update))
    (folder / "bin/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
    return calls


def test_packages_and_what_they_need_are_unpacked_once(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = play(tmp_path, monkeypatch)
    folder = debian.have(place, "tiny", ["tiny"])
    assert subprocess.run([folder / "usr/bin/tiny"], capture_output=True, text=True).stdout == "here\n"
    assert str(folder / "usr/lib/x86_64-linux-gnu") in debian.libraries(folder).split(":")
    asked = calls.read_text().splitlines()
    assert asked[-1].endswith("download tiny=1:2.0 libtiny=1.0")
    assert debian.have(place, "tiny", ["tiny"]) == folder
    assert calls.read_text().splitlines() == asked
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["tiny"]


def test_a_fetch_that_fails_is_tried_again_and_leaves_nothing(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = play(tmp_path, monkeypatch, update="echo no network >&2; exit 100")
    with pytest.raises(Unreachable, match="no network"):
        debian.have(place, "tiny", ["tiny"])
    assert len(calls.read_text().splitlines()) == debian.ATTEMPTS
    assert not any(path.is_dir() for path in (place.cache / "debian").iterdir())


def test_without_apt_it_is_said(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unreachable, match="no apt-get"):
        debian.have(place, "tiny", ["tiny"])
