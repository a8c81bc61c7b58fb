"""The note of a sink's owner in MongoDB: a document of a collection in the database that is written to."""

from __future__ import annotations

from typing import Any, ClassVar

from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from headwater.adaptors.mongodb.connection import MongoConnection
from headwater.adaptors.owner_note import NAME, OwnerNote

_CLAIM = "claim"


class MongoOwnerNote(OwnerNote):
    """A version is the text of the note."""

    rights: ClassVar[str] = f"find, insert and update on the collection {NAME} of the database"

    def __init__(self, connection: MongoConnection, pipeline: str, sink: str) -> None:
        super().__init__(f"MongoDB at {connection.where}", pipeline, sink)
        self._connection = connection
        self._notes = connection.database.get_collection(
            NAME, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern(), write_concern=WriteConcern(w="majority", j=True)
        )

    def read(self) -> tuple[str, Any]:
        with self._connection.asking():
            note = self._notes.find_one({"_id": self.key})
        text = str(note.get(_CLAIM, "")) if note is not None else None
        return text or "", text

    def replace(self, text: str, version: Any) -> bool:
        note = {"_id": self.key, _CLAIM: text}
        with self._connection.asking():
            try:
                if version is None:
                    self._notes.insert_one(note)
                    return True
                return self._notes.replace_one({"_id": self.key, _CLAIM: version}, note).matched_count == 1
            except DuplicateKeyError:
                return False
