"""Servers that are Java libraries without a program of their own: a bare JVM is started, and told over py4j what to make and start.

py4j comes with PySpark. Its door opens on a port of its own choosing, asks for a token, and is shut again as soon as the server runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JNetworkError

from headwater.core.errors import Unavailable
from headwater.spark.java import Java
from tools.services.server import Node


def command(java: Java, jars: Path, options: Sequence[str]) -> list[str]:
    """A JVM with these jars that waits for orders. The first two lines of its output are the door's port and token."""
    return [str(java.program), *options, "-cp", f"{jars}/*{os.pathsep}{_py4j()}", "py4j.GatewayServer", "--enable-auth", "0"]


def listens(node: Node) -> bool:
    """Whether the node itself has its clients' port: a stranger that took it must not pass for a server that was started already."""
    return node.process is not None and node.process.listens(node.ports["clients"])


def start(node: Node, orders: Callable[[Any], Any], *, stop: str, seconds: float) -> None:
    """Give the orders, once: `orders` gets the JVM, and returns the Java object whose method `stop` ends the server cleanly.

    What goes wrong is written into the node's log and ends its process, as it would with a server that has a program of its own.
    """
    process = node.process
    if process is None or not process.alive():
        return
    log = Path(f"/proc/{process.pid}/cwd/server.log")  # the runner starts every node in its own folder
    try:
        words = log.read_text(errors="replace").splitlines()[:2]
    except OSError:
        return
    if len(words) < 2 or not words[0].isdigit():
        return  # Java is still starting
    parameters = GatewayParameters(port=int(words[0]), auth_token=words[1], auto_convert=True, read_timeout=seconds)
    gateway = JavaGateway(gateway_parameters=parameters)
    try:
        gateway.jvm.System.currentTimeMillis()
    except (Py4JNetworkError, OSError):
        return  # the door is shut: the orders were given before
    try:
        server = orders(gateway)
        _stop_cleanly(gateway, server, stop)
        # Some servers have nothing but daemon threads; this idle one keeps the JVM once the door is shut.
        gateway.jvm.java.util.concurrent.Executors.newFixedThreadPool(1).prestartAllCoreThreads()
    except (Py4JError, OSError) as problem:
        with suppress(OSError), log.open("a") as file:
            file.write(f"{problem}\n")
        process.send(signal.SIGKILL)
        process.wait_gone(10.0)
    else:
        with suppress(Py4JError, OSError):
            gateway.shutdown()


def _stop_cleanly(gateway: Any, server: Any, stop: str) -> None:
    """Have Java call `server.stop()` when it is asked to end (SIGTERM)."""
    jvm = gateway.jvm
    nothing = jvm.java.lang.invoke.MethodType.methodType(jvm.java.lang.Void.TYPE)
    call = jvm.java.lang.invoke.MethodHandles.publicLookup().bind(server, stop, nothing)
    runnable = jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(jvm.java.lang.Class.forName("java.lang.Runnable"), call)
    jvm.java.lang.Runtime.getRuntime().addShutdownHook(jvm.java.lang.Thread(runnable))


def _py4j() -> Path:
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for jar in (Path(folder) / "jars").glob("py4j-*.jar"):
            return jar
    raise Unavailable("PySpark's py4j was not found.", hint="Run `make venv`, and use .venv/bin/python.")
