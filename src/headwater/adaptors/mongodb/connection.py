"""A connection to MongoDB, and its errors as headwater's. No message shows more of the address than hosts and database."""

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
from headwater.core.errors import BadConfig, BadInput, Denied, HeadwaterError, NotFound, Timeout, Unreachable
from headwater.pipeline.clients import Closing, error_text, shown
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces

Document = dict[str, Any]
SELECTION = 5000  # milliseconds to find a server that can be asked
DENIED = (13, 8000)  # codes of an answer to somebody without the right
UNKNOWN = 18  # to somebody with a wrong password
WRONG = (2, 9, 14, 73, 166, 10334)  # to what will never be done as it was asked: a filter, a name, a view, a size
LOOKED_UP = ("The DNS ", "The resolution ")  # how errors begin when the names of hosts were asked for
ADDRESS = "mongodb://host:27017/DATABASE"
_ESCAPES = "; in a user or password write %40 for @, %3A for :, %2F for /, %25 for %"


class MongoConnection(Closing):
    """One client, and the database that its address names."""

    def __init__(self, uri: str, *, given: str | Env, primary: bool = False) -> None:
        """`uri` is the address that was `given`, with what the environment holds. `primary`: ask the primary, whatever the address says.

        Errors: `BadConfig`; `Unreachable` for mongodb+srv.
        """
        address = shown(given) or "The address"
        try:
            parts = parse_uri(uri)
        except OSError as error:
            raise BadConfig(f"A file that {address} names cannot be read: {error_text(error)}.", hint="Correct its options.") from None
        except (InvalidURI, ConfigurationError, ValueError) as error:
            if str(error).startswith(LOOKED_UP):  # mongodb+srv: the address is good, and its hosts are not told now
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
        asked = ReadPreference.PRIMARY if primary else None
        self.database: Database[Document] = self._client.get_database(parts["database"], codec_options=CODEC, read_preference=asked)
        self.oplog: Collection[Document] = self._client.get_database("local", codec_options=CODEC, read_preference=asked)["oplog.rs"]

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        with self.asking():
            return str(self._client.server_info()["version"])

    def collections(self, chosen: Namespaces) -> dict[str, str | None]:
        """The chosen collections and the ids by which the server tells them apart; views and its own are left out. Errors: `NotFound`."""
        with self.asking():
            found = [one for one in self.database.list_collections() if one.get("type", "collection") == "collection"]
        names = {one["name"]: _identity(one) for one in found if not one["name"].startswith("system.") and one["name"] in chosen}
        if not names:
            raise NotFound(f"{self.where} has no collection that {chosen} matches.", hint="See what there is with listCollections.")
        return dict(sorted(names.items()))

    @contextmanager
    def asking(self, seconds: float | None = None) -> Iterator[None]:
        """Turns the client's errors into ours; with `seconds`, the time that everything inside may take."""
        try:
            if seconds is None:
                yield
            else:
                with pymongo.timeout(seconds):
                    yield
        except PyMongoError as error:
            raise self.told(error, seconds) from error

    def told(self, error: PyMongoError, seconds: float | None = None) -> HeadwaterError:
        if error.timeout and seconds is not None:
            return Timeout(
                f"MongoDB at {self.where} has not answered within {seconds:g} s.", hint="Give it a longer timeout or smaller batch."
            )
        if isinstance(error, OperationFailure) and error.code == UNKNOWN:
            return Denied(f"MongoDB at {self.where} does not know this user with this password.", hint="Look at the address.")
        if isinstance(error, OperationFailure) and error.code in WRONG:
            hint = "Look at collection_filters." if seconds is None else "Correct it with edit."
            return BadInput(f"MongoDB at {self.where} refuses what was asked: {_first(error)}.", hint=hint)
        if isinstance(error, OperationFailure) and error.code in DENIED:
            return Denied(f"MongoDB at {self.where} does not let this user do that: {_first(error)}.", hint="Give its user the right.")
        if isinstance(error, OperationFailure):
            return Unreachable(f"MongoDB at {self.where} does not do what was asked: {_first(error)}.", hint="See its log.")
        return Unreachable(
            f"MongoDB at {self.where} cannot be reached: {_first(error)}.", hint="See whether it runs, and whether the address is right."
        )


def _identity(found: Mapping[str, Any]) -> str | None:
    value = found.get("info", {}).get("uuid")
    return None if value is None else value.hex() if isinstance(value, bytes) else str(value)


def _first(error: BaseException) -> str:
    """What an error says, without the description of the whole set-up that the client adds."""
    text = str(error)
    for mark in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.split(mark)[0]
    return text.strip(" .")
