"""Starts the Spark session: tuned, quiet, on a Java that headwater finds. Importing this starts nothing and imports no pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headwater.core.config import load
from headwater.core.errors import BadConfig, Conflict, HeadwaterError, Unavailable, Unsupported
from headwater.core.settings import SparkSettings
from headwater.spark.java import Java, cache_folder, find_java
from headwater.spark.warm import COLLECTOR, SPARING, Archive, archive_for, make_at_exit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.core.metrics import SparkMetrics

ATTEMPTS = 4  # `local[n]` alone never runs a range again whose Python worker was killed
LOG_LIMIT = 8 << 20
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
PYTHON = "spark.pyspark.python"
SPECULATION = "spark.speculation"

_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?")
_ONE_AT_A_TIME = threading.Lock()  # a process has one environment: of two starts, each would put back the other's variables


def session(
    settings: SparkSettings | None = None,
    *,
    name: str = "headwater",
    quiet: bool = True,
    archive: Literal["auto", "use", "none"] = "auto",
    metrics: SparkMetrics | None = None,
    env: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark, or return this process's session: a process can have only one. Takes seconds: never call it inside a request.

    Without `settings`, those of headwater.toml and the environment hold.

    `quiet` sends what Java, Spark and the code inside local tasks print to `log_file()`. `archive`: "auto" uses an archive of Spark's
    classes, and makes a missing one after this process has ended; "use" makes none, "none" uses none. The handler of Ctrl-C stays.

    Errors: `Unavailable` when there is no Java, or when Spark does not start; the hint names the log file. `Conflict` when this process
    has a session on another master than the settings name. `BadConfig` for settings that let Spark speculate.
    """
    from pyspark.sql import SparkSession

    given, settings = settings is not None, settings or load().settings.spark
    env = os.environ if env is None else env
    if settings.remote:
        raise Unsupported("Sessions over Spark Connect are not offered.", hint="Remove the setting spark.remote, and set spark.master.")
    running = SparkSession.getActiveSession()
    if running is not None and given and running.sparkContext.master != _master(settings):
        raise Conflict(f"This process has a Spark session on {running.sparkContext.master}.", hint="Stop it before starting another one.")
    if running is None:
        java = find_java(env)
        log = log_file(env) if quiet else None
        warm = archive_for(java, cache_folder(env)) if archive != "none" else None
        used = warm if warm and warm.usable else None
        try:
            running = _start(java, conf(settings, name=name, archive=used, log=log), log)
        except Unavailable as problem:
            if used is None:
                raise
            running = _start(java, conf(settings, name=name, log=log), log)
            used.reject(str(problem))  # Spark started without it: a bad archive must not cost the session
        if warm and archive == "auto" and warm.wanted:
            make_at_exit()
    if metrics is not None:
        metrics.session_up = True
    return running


def running() -> SparkSession | None:
    """The session of this process, of any thread; None where there is none. Starts and imports nothing."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    current = SparkSession._instantiatedSession  # getActiveSession knows the sessions of its own thread alone
    return current if current is not None and current.sparkContext._jsc is not None else None


def ended(session: SparkSession) -> bool:
    """Whether a session was stopped, or its Java process does not answer."""
    try:
        context = session.sparkContext._jsc
        return context is None or bool(context.sc().isStopped())
    except Exception:  # py4j raises many kinds of a process that is gone
        return True


def stop(session: SparkSession, *, metrics: SparkMetrics | None = None) -> None:
    """End a session, and its Java's work with it."""
    session.stop()
    if metrics is not None:
        metrics.session_up = False


def end_java(seconds: float = 10.0) -> None:
    """End this process's session and its Java process, whose memory a stopped session keeps. A later `session` starts another one.

    For processes that headwater started for itself: other code of this process may use the same Java.
    """
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    current = running()
    if current is not None:
        with suppress(Exception):  # py4j raises many kinds of a process that is gone
            current.stop()
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkContext._active_spark_context, SparkSession._instantiatedSession = None, None
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return
    if process.stdin is not None:
        process.stdin.close()  # Java ends when the pipe does
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def attach(session: SparkSession) -> None:
    """Register `format("headwater")` with a session that looked for data sources before headwater was installed.

    Every other session finds it: Spark imports `pyspark_headwater` at the first use of a data source in Python.
    """
    from pyspark_headwater import DefaultSource

    session.dataSource.register(DefaultSource)


def conf(settings: SparkSettings, *, name: str, archive: Archive | None = None, log: Path | None = None) -> dict[str, str]:
    """Spark's settings for a session: ours, then those of `[spark.conf]` over them; Java options are joined, the user's last."""
    master = _master(settings)
    options = [COLLECTOR]
    if archive is None:
        options.append(SPARING)  # halves the start, which an archive does as well, without slowing down SQL
    else:
        archive.touch()
        options += archive.options()
    if log is not None:
        options += [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}", f"-Dheadwater.spark.log={log}"]
    chosen = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.driver.memory": f"{settings.driver_memory >> 20}m",
        PYTHON: sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.python.task.killTimeout": "200ms",  # by default a cancelled task's worker goes on for two seconds
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        SPECULATION: "false",
    }
    if master.startswith("local["):
        chosen |= {
            "spark.driver.host": "127.0.0.1",  # the machine's name may not resolve, or may move with its network
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 1))),
        }
    if settings.conf.get(SPECULATION, "false").lower() == "true":
        raise speculates(f"Take {SPECULATION} out of `[spark.conf]`.")
    given = {key: value for key, value in settings.conf.items() if key not in ("spark.master", JAVA_OPTIONS)}
    options += [settings.conf[JAVA_OPTIONS]] if JAVA_OPTIONS in settings.conf else []
    return chosen | given | {JAVA_OPTIONS: " ".join(options)}


def speculates(hint: str) -> BadConfig:
    """The error of a session that starts a slow task a second time beside the first: both would write the same messages."""
    return BadConfig(f"{SPECULATION} is on: Spark would run a task of a pipeline twice at the same time.", hint=hint)


def _start(java: Java, chosen: Mapping[str, str], log: Path | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    variables = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": chosen[PYTHON],  # without it, workers run the system's Python
        "SPARK_LAUNCHER_OPTS": f"{COLLECTOR} {SPARING}",  # of the small Java that only builds the command line
    }
    with _ONE_AT_A_TIME, _environment(variables), _sigint_kept():
        try:
            if SparkContext._gateway is None:
                passed = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
                gateway = launch_gateway(passed, _output(log))  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
            return SparkSession.builder.config(map=dict(chosen)).getOrCreate()
        except HeadwaterError:
            raise
        except Exception as problem:  # PySpark and py4j raise many kinds, none of them ours
            reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
            hint = f"See {log}, and run `headwater doctor`." if log else "Run `headwater doctor`."
            raise Unavailable(f"Spark did not start: {reason}", hint=hint) from problem


def _master(settings: SparkSettings) -> str:
    asked = settings.conf.get("spark.master", settings.master)
    local = _LOCAL.fullmatch(asked)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else asked


def log_file(env: Mapping[str, str] | None = None) -> Path:
    """Where quiet sessions write what Spark says, and what code inside local tasks prints."""
    return cache_folder(env) / "spark.log"


def _output(log: Path | None) -> dict[str, Any]:
    """Where the Java process writes: Python workers of local sessions inherit it."""
    if log is None:
        return {}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.unlink()
        file = log.open("ab")
    except OSError as problem:
        raise Unavailable(
            f"{log} cannot be written: {problem.strerror}.", hint="Set HEADWATER_CACHE to a folder that you can write to."
        ) from problem
    return {"stdout": file, "stderr": file}


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables for a while: PySpark reads them from this process, and hands them on."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _sigint_kept() -> Iterator[None]:
    """Restore the handler of SIGINT, which PySpark replaces: a server stops cleanly by it."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
