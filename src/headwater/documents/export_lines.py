"""Lines of an export: documents and items, and definitions of collections, each of which an import does.

    {"method":"put","path":"shop/c~/hat","body":{"price":12},"expires":"2026-01-31T12:00:00.000Z"}
    {"path":"shop/c~","index":{"indexId":"by-price","sortBy":[{"fieldName":"price","fieldType":"decimal"}]}}
    {"path":"shop/c~","schema":{"required":["price"]}}
    {"path":"cheap~","view":{"templateUri":"shop/c~/{*}","filter":"price < 10"}}
    {"template":{"indexId":"newest","templateUri":"users/*/orders~","sortBy":[{"fieldName":"date","order":"desc"}]}}

A line of a batch is one, too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.core.errors import BadInput
from headwater.documents.bodies import read_new
from headwater.documents.index_requests import HyperStorageIndexNew, ViewNew
from headwater.documents.requests import BatchLine
from headwater.documents.template_requests import TemplateNew
from headwater.wire import json
from headwater.wire.times import read_time

_read = json.decoder(dict[str, msgspec.Raw])


class ExportedWrite(BatchLine, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A write. `expires`: when what it puts is deleted by itself."""

    expires: str | int | None = None

    def line(self, now: int) -> BatchLine | None:
        """The write for a batch, at a time in ms; None: what it puts has expired. Errors: `BadInput`."""
        ttl = self.ttl
        if self.expires is not None:
            left = read_time(self.expires) - now
            if left <= 0:
                return None
            ttl = f"{left}ms"
        fields = {name: getattr(self, name) for name in BatchLine.__struct_fields__}
        return BatchLine(**{**fields, "ttl": ttl})


class ExportedTemplate(TemplateNew, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A template of indexes, and its id."""

    index_id: str


class ExportedDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An index, the schema or the view of the collection `path`; or a template of indexes. One of them."""

    path: str = ""
    index: HyperStorageIndexNew | None = None
    schema: Any = msgspec.UNSET
    view: ViewNew | None = None
    template: ExportedTemplate | None = None

    def check(self) -> None:
        """Errors: `BadInput`."""
        given = [self.index is not None, self.schema is not msgspec.UNSET, self.view is not None, self.template is not None]
        if sum(given) != 1 or bool(self.path) == (self.template is not None):
            raise BadInput("The line is neither a write nor a definition.", hint="Write it as `headwater doc export` does.")
        if self.index is not None and self.index.index_id is None:
            raise BadInput("The index has no indexId.", hint="Give it one.")


def read_line(line: bytes) -> ExportedWrite | ExportedDefinition:
    """Errors: `BadInput`."""
    try:
        names = _read(line)
    except json.UNREADABLE as error:
        raise json.unreadable(error, (), forms="Each line is an object of JSON.") from None
    if "method" in names:
        return read_new(line, ExportedWrite)
    definition = read_new(line, ExportedDefinition)
    definition.check()
    return definition
