"""`headwater pipeline init | about | test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli import completion
from headwater.cli.command import plain_command
from headwater.cli.options import Json
from headwater.cli.output import Column, print_json, print_table, visible
from headwater.core.errors import AlreadyExists, BadInput

_TEMPLATE = '''"""From {source} to {sink}. Try it: `headwater pipeline test {file}`. Run it: `headwater pipeline run {file}`."""

from headwater.pipeline import Pipeline, omit
from headwater.pipeline.adaptors import {imports}

p = Pipeline("{name}")
rows = p.source("source", {source_sample})
rows.transform(omit("secret")).save("sink", {sink_sample})
'''


def _adaptor(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, help=text, show_default=False, autocompletion=completion.adaptors)


PipelineFile = Annotated[str, typer.Argument(metavar="FILE[:name]", help="The pipeline's file.", show_default=False)]


@plain_command()
def init(
    source: Annotated[str, _adaptor("SRC", "The adaptor to read with.")],
    sink: Annotated[str, _adaptor("SINK", "The adaptor to write with.")],
    file: Annotated[Path, typer.Option("--file", metavar="FILE", help="The file to write.")] = Path("pipeline.py"),
    json: Json = False,
) -> None:
    """Write a first version of a pipeline's file. Overwrites no file."""
    from headwater.pipeline.operating.about import about_of

    source_about, sink_about = about_of(source), about_of(sink)  # check both before writing anything
    if not source_about.source:
        raise BadInput(f"{source} cannot be read from.", hint="See `headwater pipeline about` for sources.")
    if not sink_about.sink:
        raise BadInput(f"{sink} cannot be written to.", hint="See `headwater pipeline about` for sinks.")
    text = _TEMPLATE.format(
        name=file.stem,
        file=file,
        source=source,
        sink=sink,
        imports=", ".join(dict.fromkeys(sorted((source, sink)))),
        source_sample=source_about.sample,
        # The same sample twice would write to what it reads; `tail` is an option of sources only.
        sink_sample=(sink_about.sample.replace("orders", "copied") if source == sink else sink_about.sample).replace(", tail=True", ""),
    )
    try:
        with file.open("x") as out:
            out.write(text)
    except FileExistsError:
        raise AlreadyExists(f"{file} is there already.", hint="Name another one with --file, or move it away.") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}.", hint="Name another one with --file.") from error
    if json:
        print_json({"file": str(file), "source": source, "sink": sink})
    else:
        typer.echo(f"Wrote {file}. Fill it in, then try it: headwater pipeline test {file}")


@plain_command()
def about(
    adaptor: Annotated[str | None, _adaptor("ADAPTOR", "One adaptor in full.")] = None,
    json: Json = False,
) -> None:
    """List the adaptors, or describe one: what it reads and writes, how it resumes, what it guarantees."""
    from headwater.pipeline import adaptors
    from headwater.pipeline.operating.about import describe

    if adaptor is not None:
        description = describe(adaptor)
        if json:
            print_json(description)
        else:
            _print_one(description)
        return
    every = [describe(name) for name in adaptors.names()]
    if json:
        print_json(every)
        return
    columns = [Column("adaptor"), Column("source"), Column("sink"), Column("what it is")]
    rows = []
    for entry in every:
        source = " + ".join(word for word, can in (("copy", entry["copies"]), ("changes", entry["follows"])) if can) or "-"
        rows.append((entry["name"], source, entry["delivery"] or "-", entry["summary"]))
    print_table(columns, rows)


def _print_one(description: dict[str, Any]) -> None:
    lines = [("", description["summary"]), ("namespace", description["namespace"])]
    if description["source"]:
        lines.append(("source", description["source"]))
    if description["sink"]:
        lines.append(("sink", f"{description['sink']} ({description['delivery']})"))
    typer.echo(description["name"])
    for name, text in lines:
        typer.echo(f"  {name + ': ' if name else ''}{text}")
    typer.echo("  options:")
    for option in description["options"]:
        typer.echo(f"    {option['name']} = {option['default']}" if option["default"] is not None else f"    {option['name']}")
        if option["meaning"]:
            typer.echo(f"        {option['meaning']}")
    typer.echo(f"  for example: {description['sample']}")


@plain_command("test")
def try_it(file: PipelineFile, json: Json = False) -> None:
    """Connect to everything, check permissions, read some messages, and print the tree and the types of fields. Writes nothing."""
    import msgspec

    from headwater.pipeline.loading import load_pipeline
    from headwater.pipeline.operating.field_types import NamespaceTypes
    from headwater.pipeline.operating.preflight import preflight

    pipeline = load_pipeline(file)
    outcome = preflight(pipeline)
    if json:
        print_json({"pipeline": pipeline.name, "tree": pipeline.tree(), **outcome})
    else:
        typer.echo(f"pipeline {pipeline.name}")
        for line in pipeline.tree():
            typer.echo(f"  {line}")
        for check in outcome["checks"]:
            summary = check["said"].replace(f"{Path.cwd()}/", "")  # as the tree shows paths
            typer.echo(f"{'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {visible(summary)}")
        if outcome["message"] is not None:
            from headwater.pipeline import values

            text = values.encode(outcome["message"]["data"]).decode()
            typer.echo(f"first message: {visible(outcome['message']['namespace'])} {visible(text)}")
        for entry in msgspec.convert(outcome["types"], list[NamespaceTypes]):
            typer.echo(f"types of {visible(entry.namespace)} in {entry.documents} documents: {visible(', '.join(map(str, entry.fields)))}")
        for warning in outcome["warnings"]:
            typer.echo(f"warn {visible(warning)}")
    failed = [check for check in outcome["checks"] if not check["ok"]]
    if failed:
        for check in failed:
            if check["hint"]:
                typer.echo(f"  {check['hint']}", err=True)
        raise typer.Exit(failed[0]["exit_code"])
