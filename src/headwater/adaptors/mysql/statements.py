"""Statements in the binary log of MariaDB and MySQL: which tables each one changes, and how.

The log has changes of rows as events of their own. As text it has DDL, and the statements of sessions that log those in place of rows.
What is not known for certain counts as a change of every table that the text may name: a change that is missed stays missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

import msgspec

TableName = tuple[str, str]  # the database, empty for the session's own; and the table, empty for all of the database
ANSI_QUOTES, NO_BACKSLASH_ESCAPES = 0x4, 0x100000  # of a session's sql_mode, which the log has with each statement


class Effect(StrEnum):
    NONE = "none"  # no rows of any table
    TRUNCATE = "truncate"
    CREATE = "create"
    DROP = "drop"
    ALTER = "alter"  # columns, indexes or options, perhaps the key
    REPLACE = "replace"  # rows come or go that no event has, or under another name
    ROWS = "rows"  # a change of rows, logged as a statement
    UNKNOWN = "unknown"


class LoggedStatement(msgspec.Struct, frozen=True):
    """What a statement does. `tables`: those that it changes; with ROWS and UNKNOWN all that its names may mean."""

    effect: Effect
    tables: tuple[TableName, ...] = ()
    anything: bool = False  # it may change any table: one that it does not name, or the text cannot be read


class _Token(msgspec.Struct, frozen=True):
    kind: Literal["word", "name", "text", "number", "mark"]
    text: str

    @property
    def word(self) -> str:
        """The keyword; empty for what is quoted."""
        return self.text.upper() if self.kind == "word" else ""


_SKIPPED = re.compile(r"(?:\s+|/\*(?!M?!).*?\*/|--(?=[\s\x00-\x1f]|$)[^\n]*|#[^\n]*)+", re.DOTALL | re.ASCII)
_EXECUTED = re.compile(r"/\*M?!(?:\d{5,6})?")  # a comment that the server executes
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w$.\u0080-\uffff])")
_WORD = re.compile(r"[\w$\u0080-\uffff]+")  # a blank that is not ASCII is a letter of a name
_QUOTED = {
    "`": re.compile(r"`((?:[^`]+|``)*+)`"),
    "'": re.compile(r"'((?:[^'\\]+|''|\\.)*+)'", re.DOTALL),
    '"': re.compile(r'"((?:[^"\\]+|""|\\.)*+)"', re.DOTALL),
}
_PLAIN = {"'": re.compile(r"'((?:[^']+|'')*+)'"), '"': re.compile(r'"((?:[^"]+|"")*+)"')}  # a backslash is a letter


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_ROWS = _words(
    "BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE START STOP XA GRANT REVOKE SET FLUSH CHECK OPTIMIZE REPAIR CHECKSUM USE LOCK UNLOCK INSTALL "
    "UNINSTALL KILL RESET PURGE CHANGE SHOW BACKUP CACHE PREPARE DEALLOCATE EXPLAIN DESCRIBE DESC HELP SHUTDOWN"
)
_ROWS = _words("INSERT REPLACE UPDATE DELETE LOAD WITH MERGE ANALYZE")
_HIDDEN = _words("SELECT DO CALL VALUES EXECUTE")  # logged for what a function in them has changed
_OBJECTS = _words(
    "TABLE TABLES DATABASE SCHEMA INDEX VIEW TRIGGER PROCEDURE FUNCTION EVENT PACKAGE USER ROLE SERVER SEQUENCE TABLESPACE LOGFILE "
    "RESOURCE REFERENCE INSTANCE PREPARE LIBRARY CATALOG"
)
_PARTS = {"DROP": ("PARTITION",), "CONVERT": ("PARTITION", "TABLE"), "TRUNCATE": (), "EXCHANGE": (), "DISCARD": (), "IMPORT": ()}
# Words that are never a table's name unless they are quoted.
_RESERVED = _words(
    "ALL ALTER ANALYZE AND AS ASC BETWEEN BY CASE CREATE CROSS DEFAULT DELAYED DELETE DESC DISTINCT DROP ELSE EXISTS FALSE FOR FORCE FROM "
    "GROUP HAVING HIGH_PRIORITY IF IGNORE IN INDEX INNER INSERT INTERVAL INTO IS JOIN KEY LEFT LIKE LIMIT LOAD LOW_PRIORITY NATURAL NOT "
    "NULL ON OR ORDER OUTER PRIMARY RECURSIVE REPLACE RIGHT SELECT SET STRAIGHT_JOIN TABLE THEN TO TRUE UNION UPDATE USE USING VALUES WHEN "
    "WHERE WITH"
)
_UNREADABLE = LoggedStatement(Effect.UNKNOWN, anything=True)


def logged_statement(text: str, sql_mode: int = 0) -> LoggedStatement:
    """What the statement does to which tables."""
    tokens, complete = _tokens(text, sql_mode)
    reading = _Reading(tokens)
    if reading.takes("SET") and reading.takes("STATEMENT"):  # variables for one statement
        while reading.more and not reading.takes("FOR"):
            reading.skip()
    else:
        reading = _Reading(tokens)
    statement = reading.statement()
    return statement if complete or (tokens and statement.effect == Effect.NONE) else _UNREADABLE


def _tokens(text: str, sql_mode: int) -> tuple[list[_Token], bool]:
    """The tokens without comments; and whether they are all, since what is not closed cannot be read."""
    quoted = {**_QUOTED, **(_PLAIN if sql_mode & NO_BACKSLASH_ESCAPES else {})}
    if sql_mode & ANSI_QUOTES:
        quoted['"'] = _PLAIN['"']
    names = '`"' if sql_mode & ANSI_QUOTES else "`"
    out: list[_Token] = []
    at = inside = 0
    while at < len(text):
        if match := _SKIPPED.match(text, at):
            pass
        elif match := _EXECUTED.match(text, at):
            inside += 1
        elif inside and text.startswith("*/", at):
            inside -= 1
            at += 2
            continue
        elif text.startswith("/*", at):
            return out, False
        elif (mark := text[at]) in quoted:
            if (match := quoted[mark].match(text, at)) is None:
                return out, False
            out.append(_Token("name", match[1].replace(mark * 2, mark)) if mark in names else _Token("text", match[1]))
        elif match := _NUMBER.match(text, at):
            out.append(_Token("number", match[0]))
        elif match := _WORD.match(text, at):
            out.append(_Token("word", match[0]))
        else:
            out.append(_Token("mark", mark))
        at = match.end() if match is not None else at + 1
    return out, inside == 0


class _Reading:
    """Reads tokens from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at = tokens, 0

    @property
    def more(self) -> bool:
        return self._at < len(self._tokens)

    @property
    def word(self) -> str:
        return self._tokens[self._at].word if self.more else ""

    def skip(self) -> None:
        self._at += 1

    def takes(self, *words: str) -> bool:
        """Whether the next token is one of the words, which is then read."""
        is_next = self.word in words
        self._at += is_next
        return is_next

    def mark(self, text: str) -> bool:
        """Whether the next token is this mark, which is then read."""
        is_next = self.more and self._tokens[self._at] == _Token("mark", text)
        self._at += is_next
        return is_next

    def table(self) -> TableName | None:
        """The table that is named here."""
        first = self._name()
        if first is None or not self.mark("."):
            return ("", first) if first is not None else None
        second = self._name()
        return (first, second) if second is not None else None

    def _name(self) -> str | None:
        if not self.more or self._tokens[self._at].kind not in ("word", "name"):
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    # -- statements -------------------------------------------------------------------------------------------

    def statement(self) -> LoggedStatement:
        while self.mark("("):
            pass
        verb = self.word
        if not self.more or verb in _NO_ROWS:
            return LoggedStatement(Effect.NONE)
        if verb in _HIDDEN:
            return LoggedStatement(Effect.ROWS, anything=True)
        self.skip()
        match verb:
            case "ANALYZE" if self.word in ("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG"):
                return LoggedStatement(Effect.NONE)
            case "TRUNCATE":
                self.takes("TABLE")
                return _of(Effect.TRUNCATE, self.table())
            case "RENAME":
                return self._rename() if self.takes("TABLE", "TABLES") else LoggedStatement(Effect.NONE)
            case "CREATE" | "DROP" | "ALTER":
                return self._definition(verb)
        return LoggedStatement(Effect.ROWS if verb in _ROWS else Effect.UNKNOWN, tuple(self._mentioned()))

    def _definition(self, verb: str) -> LoggedStatement:
        before: set[str] = set()
        while self.more and self.word not in _OBJECTS:
            before.add(self.word)
            defining = self.takes("DEFINER")
            if defining and self.mark("="):  # an account, whose name may be any word
                self.skip()
                if self.mark("@"):
                    self.skip()
            elif not defining:
                self.skip()
        kind = self.word
        self.skip()
        if kind in ("TABLE", "TABLES"):
            self._exists()
            if "TEMPORARY" in before:
                return LoggedStatement(Effect.NONE)
            if verb == "DROP":
                return self._dropped()
            table = self.table()
            if verb == "CREATE":
                return _of(Effect.REPLACE if "REPLACE" in before else Effect.CREATE, table)
            return self._altered(table, ignoring="IGNORE" in before)
        if kind in ("DATABASE", "SCHEMA") and (verb == "DROP" or "REPLACE" in before):
            self._exists()
            name = self._name()
            return _of(Effect.DROP, (name, "") if name is not None else None)
        if kind == "INDEX":  # `PRIMARY` is the name of one
            while self.more and not self.takes("ON"):
                self.skip()
            return _of(Effect.ALTER, self.table())
        return LoggedStatement(Effect.NONE) if kind else LoggedStatement(Effect.UNKNOWN, tuple(_Reading(self._tokens)._mentioned()))

    def _exists(self) -> None:
        if self.takes("IF"):
            self.takes("NOT")
            self.takes("EXISTS")

    def _dropped(self) -> LoggedStatement:
        tables = [self.table()]
        while self.mark(","):
            tables.append(self.table())
        return _of(Effect.DROP, *tables)

    def _rename(self) -> LoggedStatement:
        self._exists()
        tables: list[TableName | None] = []
        while True:
            tables.append(self.table())
            while self.more and not self.takes("TO"):  # WAIT 5
                self.skip()
            tables.append(self.table())
            if not self.mark(","):
                return _of(Effect.REPLACE, *tables)

    def _altered(self, table: TableName | None, *, ignoring: bool) -> LoggedStatement:
        """ALTER TABLE. With IGNORE it deletes rows that a new unique index would refuse."""
        if not self.takes("NOWAIT") and self.takes("WAIT"):
            self.skip()
        tables: list[TableName | None] = [table]
        effect = Effect.REPLACE if ignoring else Effect.ALTER
        for part in self._parts():
            keyword = part.word
            part.skip()
            if keyword == "RENAME" and part.word not in ("COLUMN", "INDEX", "KEY"):
                if not part.takes("TO", "AS"):
                    part.mark("=")
                effect = Effect.REPLACE
                tables.append(part.table())
            elif keyword in _PARTS and (not _PARTS[keyword] or part.word in _PARTS[keyword]):
                effect = Effect.REPLACE
                while part.more:
                    if part.takes("TABLE"):
                        tables.append(part.table())
                    else:
                        part.skip()
        return _of(effect, *tables)

    def _parts(self) -> Iterator[_Reading]:
        """The rest, cut at its commas outside of parentheses."""
        depth, part = 0, list[_Token]()
        for token in self._tokens[self._at :]:
            mark = token.text if token.kind == "mark" else ""
            depth += (mark == "(") - (mark == ")")
            if mark == "," and not depth:
                yield _Reading(part)
                part = []
            else:
                part.append(token)
        yield _Reading(part)

    def _mentioned(self) -> Iterator[TableName]:
        """All tables that the names in the rest may mean: of `a.b`, b in the database a, and a with its column b."""
        while self.more:
            if self.word in _RESERVED or self._tokens[self._at].kind not in ("word", "name"):
                self.skip()
                continue
            first, second = self._tokens[self._at].text, self.table()
            if second is not None and second[0]:
                yield second
            yield "", first
            while self.mark("."):  # the column of database.table.column
                self.skip()


def _of(effect: Effect, *tables: TableName | None) -> LoggedStatement:
    names = tuple(table for table in tables if table is not None)
    return LoggedStatement(effect, names) if len(names) == len(tables) else _UNREADABLE
