"""`headwater journal append`: events from arguments and from standard input."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.journal_options import JournalId, JournalTopic, journal_at
from headwater.cli.usage import UsageMistake
from headwater.core.errors import BadInput

Format = Literal["json", "text", "event"]
_LONGEST = 64 << 20  # bytes of standard input: one Append is one record


@command(example='headwater journal append bank alice \'{"type": "deposit", "eur": 50}\' --expected 1')
def append(
    topic: JournalTopic,
    id: JournalId,
    at: At,
    events: Annotated[
        list[str] | None,
        typer.Argument(metavar="EVENT", help="The payload of an event, as JSON. Without any: lines of standard input.", show_default=False),
    ] = None,
    form: Annotated[
        Format,
        typer.Option("--format", help="What an event is: JSON; text; or an object with payload, seq_nr and tags."),
    ] = "json",
    expected: Annotated[
        int | None,
        typer.Option("--expected", metavar="N", help="The number of the journal's last event; 0: it is new. Another one is exit code 4."),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag of every event; may be given several times.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of the record; may be given several times.")
    ] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", metavar="JSON", help="JSON that is kept with the events.")] = None,
    header_metadata: Annotated[
        str | None, typer.Option("--header-metadata", metavar="JSON", help="JSON that is kept in the record's header.")
    ] = None,
    expire_after: Annotated[
        str | None, typer.Option("--expire-after", metavar="DURATION", help="The journal may be removed so long after this, such as 30d.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="TEXT", help="An Append that is sent twice under it is done once, for a day.")
    ] = None,
) -> None:
    """Append events as one record, all or none, and print their numbers once they are durable."""
    appended = [_event(word, form, f"Event {number}") for number, word in enumerate(events, 1)] if events else _lines(form)
    about: dict[str, Any] = {
        "expected": expected,
        "tags": tuple(tags or ()),
        "headers": _pairs(headers),
        "metadata": json_word(metadata, "--metadata"),
        "header_metadata": json_word(header_metadata, "--header-metadata"),
        "expire_after": expire_after,
        "idempotency_key": idempotency_key,
    }
    with journal_at(at, topic, id, changes=True) as journal:
        done = journal.append(*appended, **about)
    numbers = f"Event {done.first}" if done.first == done.last else f"Events {done.first} to {done.last}"
    again = ", appended before under the same idempotency key" if done.replayed else ""
    at.answered(done, f"{numbers}{again}: partition {done.partition}, offset {done.offset}.")


def _lines(form: Format) -> list[Any]:
    """The events of standard input. Errors: `BadInput`, with the number of the line."""
    data = sys.stdin.buffer.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        raise BadInput("Standard input is too much for one record.", hint="Append it in parts, or one Append a line with journal import.")
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"Standard input is no UTF-8: {error}.", hint="Give lines of JSON or text.") from None
    return [_event(line, form, f"Line {number}") for number, line in enumerate(lines, 1) if line.strip()]


def _event(written: str, form: Format, where: str) -> Any:
    from headwater.journal.bodies import EventBody, payload_in
    from headwater.journal.event import Event

    if form == "text":
        return written
    value = json_word(written, where)
    if form == "json":
        return payload_in(value)
    import msgspec

    from headwater.wire import json

    try:
        event = msgspec.json.decode(bytes(value), type=EventBody)
    except msgspec.MsgspecError as error:
        bad = json.unreadable(error, EventBody.__struct_fields__, forms='An event is such as {"payload": {"eur": 50}, "seq_nr": 3}.')
        raise BadInput(f"{where}: {bad.message}", hint=bad.hint) from None
    return Event(payload_in(event.payload), event.seq_nr, event.tags)


def json_word(written: str | None, where: str) -> Any:
    """JSON as it is written. Errors: `BadInput`."""
    if written is None:
        return None
    import msgspec

    from headwater.wire.json import UNREADABLE

    try:
        text = written.encode()
        msgspec.json.decode(text, type=msgspec.Raw)
        msgspec.json.decode(text)
    except (*UNREADABLE, UnicodeEncodeError) as error:
        raise BadInput(
            f"{where} is no JSON: {error}.", hint="Write such as '{\"eur\": 50}', text as '\"text\"', or add --format text."
        ) from None
    return msgspec.Raw(text.strip())


def _pairs(words: list[str] | None) -> dict[str, str] | None:
    pairs: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageMistake(f"--header {word} has no value.", hint="Write it such as --header trace=7.")
        if name in pairs:
            raise UsageMistake(f"--header {name} is given twice.", hint="Give each header once.")
        pairs[name] = value
    return pairs or None
