"""`headwater queue claim | done | result | extend | fail | release`: a worker by hand, or of a shell script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.at import At
from headwater.cli.command import command
from headwater.cli.output import counted, print_json, print_json_line, visible
from headwater.cli.queue_options import NOTHING_FOUND, FailEmpty, Group, Lease, QueueName, Token, Tokens, cell, json_or_text, queue_at
from headwater.core.errors import StaleClaim
from headwater.wire import json

if TYPE_CHECKING:
    from collections.abc import Sequence


@command(example="headwater queue claim pages -n 10 --lease 60s --wait 20s")
def claim(
    queue: QueueName,
    at: At,
    n: Annotated[int, typer.Option("--count", "-n", metavar="N", min=1, max=10_000, help="The most rows to claim.")] = 1,
    lease: Lease = None,
    wait: Annotated[str, typer.Option("--wait", metavar="DURATION", help="How long to wait for the first row.")] = "0s",
    group: Group = "default",
    fail_empty: FailEmpty = False,
) -> None:
    """Claim rows that are due, and print them with their tokens. With `--json` one object a line."""
    with queue_at(at, queue) as door:
        claims = door.claim(n, lease=lease, wait=wait, group=group)
    for claimed in claims:
        if at.json:
            print_json_line(claimed.shown())
        else:
            shown = claimed.shown()
            typer.echo(f"{claimed.token}  {visible(cell(shown.key))}  {visible(cell(shown.data))}")
    if claims:
        at.note(f"{counted(len(claims), 'row')} claimed. When done: {at.command(f'queue done {queue} {claims[0].token}')}")
        return
    at.note("No row is due.")
    if fail_empty:
        raise typer.Exit(NOTHING_FOUND)


@command(example="headwater queue done pages TOKEN --result '{\"pages\": 3}'")
def done(
    queue: QueueName,
    tokens: Tokens,
    at: At,
    result: Annotated[
        str | None, typer.Option("--result", metavar="JSON", help="What became of the rows, for `result`; what is no JSON is text.")
    ] = None,
) -> None:
    """The rows of claims are processed: remove them. Stale tokens are exit code 4; the others are done nevertheless."""
    with queue_at(at, queue) as door:
        stale = door.done(*tokens) if result is None else door.done(*tokens, result=json_or_text(result))
    _told(queue, tokens, stale, at, "done")


@command(example="headwater queue result pages 65536 --wait 20s")
def result(
    queue: QueueName,
    row: Annotated[int, typer.Argument(metavar="ID", min=0, help="The id of the row, as `put` prints it.", show_default=False)],
    at: At,
    wait: Annotated[str, typer.Option("--wait", metavar="DURATION", help="How long to wait until the row is done.")] = "0s",
) -> None:
    """Print the result of a row that is done, as JSON. One that is not done yet is exit code 6."""
    with queue_at(at, queue) as door:
        answer = door.shown_result(row, timeout=wait)
    if at.json:
        print_json({"id": row, "result": answer.result, "expires": answer.expires})
    else:
        typer.echo(visible(json.encode(answer.result).decode()))


@command(example="headwater queue extend pages TOKEN --lease 60s")
def extend(queue: QueueName, tokens: Tokens, at: At, lease: Lease = None) -> None:
    """Let the leases of claims begin anew. Stale tokens are exit code 4; the others are extended nevertheless."""
    with queue_at(at, queue) as door:
        stale = door.extend(*tokens, lease=lease)
    _told(queue, tokens, stale, at, "extended")


@command(example='headwater queue fail pages TOKEN --error "no answer" --retry-after 30s')
def fail(
    queue: QueueName,
    token: Token,
    at: At,
    error: Annotated[str, typer.Option("--error", metavar="TEXT", help="What went wrong.")] = "",
    retry_after: Annotated[str | None, typer.Option("--retry-after", metavar="DURATION", help="Try it again after so long.")] = None,
    give_up: Annotated[bool, typer.Option("--give-up", help="Never try it again: it goes to the dead list.")] = False,
) -> None:
    """The row of a claim could not be processed: try it again, or give it up."""
    with queue_at(at, queue) as door:
        door.fail(token, error, retry_after=retry_after, give_up=give_up)
    _told(queue, [token], [], at, "given up" if give_up else "failed, and will be tried again")


@command(example="headwater queue release pages TOKEN")
def release(
    queue: QueueName,
    token: Token,
    at: At,
    delay: Annotated[str | None, typer.Option("--delay", metavar="DURATION", help="Not before so long; at once unless given.")] = None,
) -> None:
    """Give the row of a claim back unprocessed."""
    with queue_at(at, queue) as door:
        door.release(token, delay=delay)
    _told(queue, [token], [], at, "released")


def _told(queue: str, tokens: Sequence[str], stale: Sequence[str], at: At, what: str) -> None:
    rest = [token for token in tokens if token not in stale]
    if rest:
        at.answered({"queue": queue, "tokens": rest}, f"{counted(len(rest), 'row')} {what}.")
    if stale:
        raise StaleClaim(
            f"{'These claims hold their rows' if len(stale) > 1 else 'This claim holds its row'} no longer: {', '.join(stale)}.",
            hint=f"The lease has ended, or the row is done. See `{at.command(f'queue rows {queue}')}`.",
        )
