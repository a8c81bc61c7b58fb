"""A connection to MongoDB, and its errors as headwater's. No error shows more of the URI than hosts and database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymongo
from pymongo import MongoClient, ReadPreference
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConfigurationError, InvalidURI, OperationFailure, PyMongoError
from pymongo.uri_parser import parse_uri

from headwater.adaptors.mongodb.types import CODEC
from headwater.adaptors.owner_note import GRANT, NAME
from headwater.core.errors import BadConfig, BadInput, Denied, HeadwaterError, NotFound, Timeout, Unreachable
from headwater.pipeline.clients import Closing, addresses, error_text, shown
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces

Document = dict[str, Any]
SELECTION = 5000  # milliseconds to find a server
DENIED = (13, 8000)  # codes of a missing right
UNKNOWN = 18  # code of a wrong password
WRONG = (2, 9, 14, 73, 166, 10334)  # codes of a request that can never succeed: a wrong filter, name, view or size
LOOKED_UP = ("The DNS ", "The resolution ")  # the first words of DNS errors
ADDRESS = "mongodb://host:27017/DATABASE"
_ESCAPES = "; in a user or password write %40 for @, %3A for :, %2F for /, %25 for %"


class MongoConnection(Closing):
    """One client, and the database that its address names."""

    def __init__(self, uri: str, *, given: str | Env, primary: bool = False) -> None:
        """`uri`: the resolved URI; `given`: the URI as it was written. `primary`: read from the primary, whatever the URI says.

        Errors: `BadConfig`; `Unreachable` for mongodb+srv.
        """
        address = shown(given) or "The address"
        try:
            parts = parse_uri(uri)
        except OSError as error:
            raise BadConfig(f"A file that {address} names cannot be read: {error_text(error)}.", hint="Correct its options.") from None
        except (InvalidURI, ConfigurationError, ValueError) as error:
            if str(error).startswith(LOOKED_UP):  # mongodb+srv: the URI is right, and the DNS does not answer now
                raise Unreachable(
                    f"{address} cannot be reached: {error}".rstrip(".") + ".", hint="See whether its name is right."
                ) from None
            # With a user in the URI, the client's words may repeat a password that it took for something else.
            why, escapes = (f": {error}", "") if "@" not in uri else ("", _ESCAPES)
            raise BadConfig(f"{address} is no address of MongoDB{why}.".replace("..", "."), hint=f"Give {ADDRESS}{escapes}.") from None
        if not parts["database"]:
            raise BadConfig(f"{address} names no database.", hint=f"Give {ADDRESS}.")
        self.where = f"{','.join(f'{host}:{port}' for host, port in parts['nodelist'])}/{parts['database']}"
        given_time = "serverselectiontimeoutms" in {name.lower() for name in parts["options"]}
        options: dict[str, Any] = {} if given_time else {"serverSelectionTimeoutMS": SELECTION}
        try:
            self._client: MongoClient[Document] = MongoClient(uri, appname="headwater", **options)
        except (ConfigurationError, ValueError, OSError) as error:
            raise BadConfig(f"{address} cannot be used: {error}.", hint="Correct its options.") from None
        preference = ReadPreference.PRIMARY if primary else None
        self.database: Database[Document] = self._client.get_database(parts["database"], codec_options=CODEC, read_preference=preference)
        self.oplog: Collection[Document] = self._client.get_database("local", codec_options=CODEC, read_preference=preference)["oplog.rs"]

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        with self.asking():
            return str(self._client.server_info()["version"])

    def identities(self) -> list[str]:
        """The identities of the database: by the primary's process, or by the addresses of a server that does not tell it."""
        with self.asking():
            primary = self._client.get_database("admin", read_preference=ReadPreference.PRIMARY)
            process = primary.command("isMaster").get("topologyVersion", {}).get("processId")  # `hello` is unknown to servers before 5
            host, port = self._client.address or ("", 0)
        servers = [str(process)] if process else [f"{address}:{port}" for address in addresses(host)]
        return [f"mongodb {server}/{self.database.name}" for server in servers]

    def collections(self, chosen: Namespaces) -> dict[str, str | None]:
        """The chosen collections with their UUIDs, without views and system collections. Errors: `NotFound`."""
        with self.asking():
            entries = [entry for entry in self.database.list_collections() if entry.get("type", "collection") == "collection"]
        names = {entry["name"]: _identity(entry) for entry in entries if not is_kept_out(entry["name"]) and entry["name"] in chosen}
        if not names:
            raise NotFound(f"{self.where} has no collection that {chosen} matches.", hint="See what there is with listCollections.")
        return dict(sorted(names.items()))

    @contextmanager
    def asking(self, seconds: float | None = None) -> Iterator[None]:
        """Turns pymongo's errors into headwater's. `seconds`: the timeout of everything inside."""
        try:
            if seconds is None:
                yield
            else:
                with pymongo.timeout(seconds):
                    yield
        except PyMongoError as error:
            raise self.explained(error, seconds) from error

    def explained(self, error: PyMongoError, seconds: float | None = None) -> HeadwaterError:
        if error.timeout and seconds is not None:
            return Timeout(
                f"MongoDB at {self.where} has not answered within {seconds:g} s.", hint="Give it a longer timeout or smaller batch."
            )
        if isinstance(error, OperationFailure) and error.code == UNKNOWN:
            return Denied(f"MongoDB at {self.where} refuses user or password.", hint="Look at the URI.")
        if isinstance(error, OperationFailure) and error.code in WRONG:
            hint = "Look at collection_filters." if seconds is None else "Correct it with edit."
            return BadInput(f"MongoDB at {self.where} refuses the request: {_first(error)}.", hint=hint)
        if isinstance(error, OperationFailure) and error.code in DENIED:
            return Denied(f"MongoDB at {self.where} refuses the user: {_first(error)}.", hint=GRANT)
        if isinstance(error, OperationFailure):
            return Unreachable(f"MongoDB at {self.where} has failed: {_first(error)}.", hint="See its log.")
        return Unreachable(
            f"MongoDB at {self.where} cannot be reached: {_first(error)}.", hint="See whether it runs, and whether the address is right."
        )


def is_kept_out(collection: str) -> bool:
    """Whether a collection is the server's own, or has the notes of sinks' owners."""
    return collection.startswith("system.") or collection == NAME


def _identity(entry: Mapping[str, Any]) -> str | None:
    value = entry.get("info", {}).get("uuid")
    return None if value is None else value.hex() if isinstance(value, bytes) else str(value)


def _first(error: BaseException) -> str:
    """The text of an error without the description of the topology that pymongo adds."""
    text = str(error)
    for mark in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.split(mark)[0]
    return text.strip(" .")
