"""The declaration of a queue's table, as XML or TOML: settings, and typed columns that the data of each row must have.

    <table name="pages" model="queue">                 name = "pages"
      <settings lease="60s" max_timeouts="3"/>         model = "queue"
      <column name="url" type="text" required="true"/> [settings]
      <column name="depth" type="int"/>                lease = "60s"
    </table>                                           [[column]]
                                                       name = "url"
                                                       …

A row's data are an object with these columns and no others. `required`: the column must be there; another one may be left out or null.
XML with a document type is refused before it is parsed, so that no entity is ever expanded.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, get_args
from xml.etree import ElementTree

import msgspec

from headwater.core.errors import BadInput
from headwater.core.spelling import nearest
from headwater.queue.column_types import COLUMN_TYPES, ColumnType, fits, wanted
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.settings_form import read_settings

_decoder = msgspec.json.Decoder(float_hook=Decimal)
_MODEL = "queue"
_MOST = 256 << 10  # bytes of a declaration
_COLUMN_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_DOCTYPE = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_TRUTH = {"true": True, "false": False}
_EXAMPLE = '<table name="pages" model="queue"><column name="url" type="text" required="true"/></table>'


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column of the data."""

    name: str
    type: ColumnType
    required: bool = False


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a declaration says. `text`: as it was written. `settings`: by name, as they are written."""

    text: str
    name: str = ""
    settings: Mapping[str, Any] = {}
    columns: tuple[DeclaredColumn, ...] = ()

    def check(self, data: bytes, *, binary: bool = False) -> None:
        """Errors: `BadInput` where the data of a row are not as declared: which column, and what it should be."""
        if not self.columns:
            return
        if binary:
            raise BadInput("The data are bytes, and the queue declares columns.", hint=self._hint())
        try:
            row = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise BadInput(f"The data are no JSON: {error}.", hint=self._hint()) from error
        if not isinstance(row, dict):
            raise BadInput(f"The data are {_kind(row)}, and the queue declares columns.", hint=self._hint())
        for column in self.columns:
            value = row.get(column.name)
            if value is None:
                if column.required:
                    raise BadInput(f"The column {column.name!r} is missing.", hint=f"Give it as {wanted(column.type)}.")
            elif not fits(column.type, value):
                raise BadInput(f"The column {column.name!r} cannot be {_shown(value)}.", hint=f"Give it as {wanted(column.type)}.")
        if len(row) > len(self.columns) or not row.keys() <= self._names:
            unknown = next(name for name in row if name not in self._names)
            raise BadInput(f"{unknown!r:.80} is no column of the queue.", hint=nearest(unknown, sorted(self._names)))

    @property
    def _names(self) -> frozenset[str]:
        return _names(self.columns)

    def _hint(self) -> str:
        return f"Give an object with the columns {', '.join(column.name for column in self.columns)}."


@lru_cache(maxsize=256)
def _names(columns: tuple[DeclaredColumn, ...]) -> frozenset[str]:
    return frozenset(column.name for column in columns)


def read_declaration(text: object, queue: str = "") -> Declaration:
    """A declaration in XML, or in TOML. `queue`: the name of the queue that it is for, which it must have or leave out.

    "" is no declaration: it has no columns. Errors: `BadInput`, which names the line where that is known, and the column.
    """
    if not isinstance(text, str):
        raise BadInput(f"A declaration is a text, not a {type(text).__name__}.", hint=f"Write it such as {_EXAMPLE}.")
    if len(text.encode(errors="surrogatepass")) > _MOST:
        raise BadInput("The declaration is too large.", hint=f"Give up to {_MOST >> 10} KiB.")
    if not text.strip():
        return Declaration(text="")
    declaration = _from_xml(text) if text.lstrip("\ufeff \t\r\n").startswith("<") else _from_toml(text)
    if queue and declaration.name and declaration.name != queue:
        raise BadInput(f"The declaration is of a table {declaration.name!r}, not of {queue!r}.", hint="Give it the name of the queue.")
    read_settings(declaration.settings, EffectiveSettings())
    if "region" in declaration.settings:
        raise BadInput(
            "A declaration does not say where a queue lies.", hint="Give the region when the queue is created, and leave it out here."
        )
    names = [column.name for column in declaration.columns]
    if twice := next((name for number, name in enumerate(names) if name in names[:number]), None):
        raise BadInput(f"The column {twice!r} is declared twice.", hint="Leave one of them out.")
    return declaration


# -- XML ------------------------------------------------------------------------------------------------------


def _from_xml(text: str) -> Declaration:
    if _DOCTYPE.search(text):
        raise BadInput("A declaration has no document type and no entities.", hint=f"Write it such as {_EXAMPLE}.")
    try:
        table = ElementTree.fromstring(text.lstrip("\ufeff"))  # without a document type there is nothing to expand
    except (ElementTree.ParseError, ValueError) as error:
        raise BadInput(f"The declaration is no XML: {error}.", hint=f"Write it such as {_EXAMPLE}.") from error
    if table.tag != "table":
        raise BadInput(f"The declaration is a <{table.tag}>, not a <table>.", hint=f"Write it such as {_EXAMPLE}.")
    _text_free(table)
    settings: dict[str, Any] = {}
    columns: list[DeclaredColumn] = []
    for child in table:
        _text_free(child)
        if len(child):
            raise BadInput(f"<{child.tag}> has elements in it.", hint="<settings> and <column> have attributes alone.")
        if child.tag == "settings":
            if settings:
                raise BadInput("The declaration has <settings> twice.", hint="Write all settings as attributes of one.")
            settings = dict(child.attrib)
        elif child.tag == "column":
            columns.append(_column(dict(child.attrib), len(columns)))
        else:
            raise BadInput(f"<{child.tag}> has no place in a declaration.", hint="Write <settings …/> and <column …/> into the table.")
    return _made(text, dict(table.attrib), settings, columns)


def _text_free(element: ElementTree.Element) -> None:
    for text in (element.text, element.tail):
        if text and text.strip():
            raise BadInput(f"The text {text.strip()[:40]!r} has no place in a declaration.", hint=f"Write it such as {_EXAMPLE}.")


# -- TOML -----------------------------------------------------------------------------------------------------


def _from_toml(text: str) -> Declaration:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadInput(
            f"The declaration is neither XML nor TOML: {error}.", hint='Begin with name = "pages", or with <table …>.'
        ) from error
    settings, columns = document.pop("settings", {}), document.pop("column", [])
    if not isinstance(settings, dict):
        raise BadInput("`settings` is a table.", hint="Write [settings], and each setting below it.")
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        raise BadInput("`column` is a list of tables.", hint="Write [[column]] for each, with name and type below it.")
    return _made(text, document, settings, [_column(column, number) for number, column in enumerate(columns)])


# -- both -----------------------------------------------------------------------------------------------------


def _made(text: str, table: dict[str, Any], settings: dict[str, Any], columns: list[DeclaredColumn]) -> Declaration:
    for unknown in table:
        if unknown not in ("name", "model"):
            raise BadInput(f"{unknown!r} is nothing that a table declares.", hint=nearest(unknown, ("name", "model", "settings", "column")))
    name, model = table.get("name", ""), table.get("model", _MODEL)
    if model != _MODEL:
        raise BadInput(f"The declaration is of a table of the model {model!r}.", hint=f'Write model="{_MODEL}".')
    if not isinstance(name, str):
        raise BadInput(f"{name!r} is no name of a table.", hint="Give the name of the queue.")
    return Declaration(text=text, name=name, settings=settings, columns=tuple(columns))


def _column(fields: dict[str, Any], place: int) -> DeclaredColumn:
    name, kind, required = fields.pop("name", None), fields.pop("type", None), fields.pop("required", False)
    if not isinstance(name, str) or not _COLUMN_NAME.fullmatch(name):
        raise BadInput(f"Column {place + 1} has no name.", hint='Give it one, such as name="url".')
    if fields:
        unknown = next(iter(fields))
        raise BadInput(f"{unknown!r} is nothing that a column declares.", hint=nearest(unknown, ("name", "type", "required")))
    if kind not in get_args(ColumnType):
        shown = "no type" if kind is None else f"the type {kind!r}"
        raise BadInput(f"The column {name!r} has {shown}.", hint=f"The types are {', '.join(COLUMN_TYPES)}.")
    if isinstance(required, str):
        required = _TRUTH.get(required.strip().lower(), required)
    if not isinstance(required, bool):
        raise BadInput(f"required={required!r} of the column {name!r} says neither yes nor no.", hint="Give true or false.")
    return DeclaredColumn(name, kind, required)


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "no object"


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= 60 else f"{text[:57]}…"
