"""Servers that come as jars, and run on the Java that Spark runs on."""

from __future__ import annotations

from pathlib import Path

from headwater.spark.java import Java, find_java
from tools.services.jars import Jars
from tools.services.place import Place
from tools.services.server import Server


class JarServer(Server):
    """Its kind is its name in the list of jars. `java` and `jars` are known after `have`."""

    java: Java
    jars: Path

    def have(self, place: Place) -> None:
        self.java = find_java()
        self.jars = Jars.listed(self.kind).have(place, self.java)
