"""`headwater queue dead`: the rows that a queue has given up."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import Column, agreed, counted, print_json, print_json_line, print_table, visible
from headwater.cli.queue_options import KeyPrefix, Limit, QueueName, Reason, cell, queue_at, short, when
from headwater.cli.usage import UsageMistake
from headwater.queue.answers import ShownDeadRow


@command("yes", "dry_run", example="headwater queue dead pages retry --all --reason timeouts")
def dead(
    queue: QueueName,
    verb: Annotated[
        Literal["list", "show", "retry", "drop"],
        typer.Argument(metavar="list|show|retry|drop", help="What to do.", show_default=False),
    ],
    at: At,
    id: Annotated[int | None, typer.Argument(metavar="ID", help="The id of the row.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="`retry` or `drop` all of them, or those that --key and --reason find.")] = False,
    key: KeyPrefix = "",
    reason: Annotated[Reason | None, typer.Option("--reason", help="Only rows that died of this.")] = None,
    limit: Limit = 100,
) -> None:
    """Handle rows that the queue has given up: list them, show one, put them again, or drop them."""
    if verb == "list":
        if id is not None or every:
            raise UsageMistake("dead list takes no row.", hint="Leave it out, or see --help for what takes it.")
        _list(queue, at, key, reason, limit)
        return
    if (verb == "show" and every) or (id is None) != every:
        raise UsageMistake(
            "Which row?" if id is None else "One row, or --all of them?", hint=f"List them with `headwater queue dead {queue} list`."
        )
    with queue_at(at, queue) as door:
        if verb == "show":
            assert id is not None
            _show(door.dead_show(id).shown(), at)
            return
        if verb == "retry":
            count = (
                door.dead_retry(id, dry_run=at.dry_run)
                if id is not None
                else door.dead_retry_all(prefix=key, reason=reason, dry_run=at.dry_run)
            )
        else:
            number = door.dead_drop(id, dry_run=True) if id is not None else door.dead_drop_all(prefix=key, reason=reason, dry_run=True)
            if not at.dry_run and number and not agreed(f"Drop {counted(number, 'dead row')} of queue {queue}?", yes=at.yes):
                raise typer.Exit(1)
            count = number
            if not at.dry_run and number:
                count = door.dead_drop(id) if id is not None else door.dead_drop_all(prefix=key, reason=reason)
    done = {"retry": "put again", "drop": "dropped"}[verb]
    would = "would be" if at.dry_run else "is" if count == 1 else "are"
    at.answered({"queue": queue, "count": count, "dry_run": at.dry_run}, f"{counted(count, 'dead row')} {would} {done}.")


def _list(queue: str, at: At, key: str, reason: Reason | None, limit: int) -> None:
    with queue_at(at, queue) as door:
        rows = [row.shown() for row in door.dead(prefix=key, reason=reason, limit=limit)]
    if at.json:
        for shown in rows:
            print_json_line(shown)
    elif rows:
        columns = (Column("id", True), Column("key"), Column("reason"), Column("when"), Column("error"))
        print_table(columns, [_row(shown) for shown in rows if isinstance(shown, ShownDeadRow)])
        at.note(f"Put one again: {at.command(f'queue dead {queue} retry {rows[0].id}')}")
    else:
        at.note("No row is dead.")


def _row(shown: ShownDeadRow) -> tuple[str, ...]:
    return (str(shown.id), short(cell(shown.key), 24), shown.reason, when(shown.date), short(shown.error.partition("\n")[0], 20))


def _show(shown: object, at: At) -> None:
    if at.json:
        print_json(shown)
        return
    assert isinstance(shown, ShownDeadRow)
    for name in shown.__struct_fields__:
        value = getattr(shown, name)
        if value not in (None, "", False) or name == "data":
            typer.echo(f"{name:<22}{visible(cell(value))}")
