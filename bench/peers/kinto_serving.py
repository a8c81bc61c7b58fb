"""Serves Kinto with waitress, as its own command does. Runs in the peers' environment, imports nothing of headwater's.

Its argument is the address of a database of PostgreSQL; an empty one: it keeps everything in memory. Once it listens it says
{"version", "port"}.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib.metadata import version

import kinto
import waitress
from pyramid.config import Configurator

_PARTS = ("storage", "permission", "cache")


def settings(uri: str) -> dict[str, str]:
    """Everybody who has a name may write; what is kept where follows from the address."""
    values = {"userid_hmac_secret": "bench", "multiauth.policies": "basicauth", "bucket_create_principals": "system.Authenticated"}
    for part in _PARTS:
        module = {"storage": "kinto.core.storage", "permission": "kinto.core.permission", "cache": "kinto.core.cache"}[part]
        values[f"{part}_backend"] = f"{module}.{'postgresql' if uri else 'memory'}"
        if uri:
            values[f"{part}_url"] = uri
    return {name if name.startswith("multiauth") else f"kinto.{name}": value for name, value in values.items()}


def main() -> None:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    config = Configurator(settings=settings(sys.argv[1]), root_factory=kinto.authorization.RouteFactory)
    app = kinto.main({"command": "start"}, config=config)
    if sys.argv[1]:
        for part in _PARTS:
            getattr(app.registry, part).initialize_schema()
    server = waitress.create_server(app, host="127.0.0.1", port=0)
    print(json.dumps({"version": version("kinto"), "port": server.effective_port}), flush=True)
    server.run()


if __name__ == "__main__":
    main()
