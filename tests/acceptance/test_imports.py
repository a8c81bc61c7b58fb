"""What a program imports: headwater needs no library of a system that the program does not use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import metadata, packages_distributions, requires

import pytest

from headwater.pipeline import adaptors


@pytest.mark.parametrize(
    "program",
    [
        "import headwater",
        "import headwater.pipeline, headwater.spark.lazy, headwater.spark.small, headwater.pipeline.running.run",
        "from headwater.cli import main; sys.argv = ['headwater', '--help']; main()",
    ],
    ids=["import", "pipelines", "help"],
)
def test_pyspark_is_not_imported_before_it_is_needed(program: str) -> None:
    told = "import atexit, sys; atexit.register(lambda: print('pyspark' in sys.modules, file=sys.stderr)); "
    done = subprocess.run([sys.executable, "-c", told + program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


def test_queues_for_tests_need_neither_pytest_nor_hypothesis() -> None:
    program = (
        "import sys\n"
        "sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"
        "from headwater.testing import blocking_queue_for_tests\n"
        "with blocking_queue_for_tests('pages') as test:\n"
        "    test.queue.put('k', 1)\n"
        "    print(test.assert_put('k', 1).status)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert ran.stdout == "W\n", ran.stderr


def test_pipelines_and_every_adaptor_are_known_without_a_library_of_any_system() -> None:
    drivers = ["pyspark", "psycopg", "pymysql", "pymongo", "opensearchpy", "pika", "botocore", "confluent_kafka", "pyarrow"]
    code = (
        "import sys, headwater.pipeline; from headwater.pipeline import adaptors; [adaptors.find(name) for name in adaptors.built_in()]; "
        f"print([name for name in {drivers} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def extra_of(name: str) -> str:
    """A system's extra has the name of its folder."""
    return adaptors.built_in()[name].split(".")[2]


def modules_of(extra: str) -> set[str]:
    """The modules that come with an extra: its packages' and those that they need themselves."""
    direct = {_package(one) for one in requires("headwater") or () if re.search(rf"extra == ['\"]{extra}['\"]", one)}
    below = {_package(one) for package in direct for one in requires(package) or () if "extra ==" not in one}
    return {module for module, packages in MODULES.items() if (direct | below) & {one.lower() for one in packages}}


def _package(requirement: str) -> str:
    return re.split(r"[\[<>=!~; (]", requirement)[0].lower()


MODULES = packages_distributions()


EXTRAS = set(metadata("headwater").get_all("Provides-Extra") or ())


WITH_EXTRA = sorted(name for name in adaptors.built_in() if extra_of(name) in EXTRAS)


def test_the_systems_that_need_an_extra_are_found() -> None:
    assert {"elasticsearch", "kafka", "mariadb", "mongodb", "mysql", "opensearch", "postgres", "rabbitmq", "s3"} <= set(WITH_EXTRA)


_WITHOUT = """
import json, sys
names, hidden = json.loads(sys.argv[1]), json.loads(sys.argv[2])
sys.modules.update(dict.fromkeys(hidden))  # an import of None fails
from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.namespaces import Namespaces
told = {}
for name in names:
    made = adaptors.find(name)("${ADDRESS}")
    try:
        made.check("sink" if isinstance(made, CanWrite) else "source", Namespaces())
    except BadConfig as error:
        told[name] = [error.message, error.hint]
print(json.dumps(told))
"""


def test_a_missing_client_is_told_with_the_command_that_installs_it() -> None:
    """In a process of its own: this one may have imported the clients."""
    hidden = set().union(*(modules_of(extra_of(name)) for name in WITH_EXTRA))
    given = [json.dumps(WITH_EXTRA), json.dumps(sorted(hidden))]
    environ = os.environ | {"ADDRESS": "any://somebody:secret@127.0.0.1:1/things"}
    done = subprocess.run([sys.executable, "-c", _WITHOUT, *given], capture_output=True, text=True, check=True, env=environ)
    told = json.loads(done.stdout)
    assert sorted(told) == WITH_EXTRA
    for name, (message, hint) in told.items():
        assert "not installed" in message
        assert f'pip install "headwater[{extra_of(name)}]"' in hint


_AT_ONCE = """
import importlib, sys, threading
from headwater.pipeline.clients import client_of
sys.setswitchinterval(1e-6)
failed = []
def use(name):
    gate.wait()
    try:
        with client_of("mysql", "mysql"):
            importlib.import_module(name)
    except BaseException as error:
        failed.append(str(error))
for _ in range(8):
    for name in [name for name in sys.modules if name.startswith("pymysql")]:
        del sys.modules[name]
    gate = threading.Barrier(2)
    threads = [threading.Thread(target=use, args=(name,)) for name in ("pymysql.cursors", "pymysql.connections")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
print(failed)
"""


def test_two_threads_may_import_one_client_at_once() -> None:
    """As source and sink of a run do: without a lock they failed, now and then, with a circular import."""
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, timeout=240)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
