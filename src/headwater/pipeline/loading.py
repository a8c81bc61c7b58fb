"""Loading a pipeline from its file."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from headwater.core.errors import BadConfig, HeadwaterError, NotFound
from headwater.pipeline.definition import Pipeline


def load_pipeline(where: str) -> Pipeline:
    """The pipeline of `FILE` or `FILE:name`. What the file defines travels to Spark's workers by value.

    Errors: `NotFound` for a file that is not there; `BadConfig` for one that cannot be run, or holds no pipeline, or several unnamed.
    """
    path, name = Path(where), ""
    if not path.exists() and ":" in where:
        text, _, name = where.rpartition(":")
        path = Path(text)
    if path.is_dir():
        raise NotFound(f"{path.absolute()} is a folder, and a pipeline is a file.", hint="Name the file in it, such as shop.py.")
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", hint="Write one with `headwater pipeline init SRC SINK`.")
    pipelines = {key: value for key, value in vars(_module(path)).items() if isinstance(value, Pipeline)}
    if name:
        chosen = [value for key, value in pipelines.items() if name in (key, value.name)]
        if not chosen:
            raise BadConfig(
                f"{path} has no pipeline {name}.", hint=f"It has {', '.join(pipeline.name for pipeline in pipelines.values()) or 'none'}."
            )
        return chosen[0].complete()
    distinct = {id(value): value for value in pipelines.values()}
    if not distinct:
        raise BadConfig(f"{path} defines no Pipeline.", hint='Define one at module level: p = Pipeline("name").')
    if len(distinct) > 1:
        names = ", ".join(pipeline.name for pipeline in distinct.values())
        raise BadConfig(f"{path} defines several pipelines: {names}.", hint=f"Name one, as in {path}:{next(iter(distinct.values())).name}.")
    return next(iter(distinct.values())).complete()


def _module(path: Path) -> ModuleType:
    name = f"headwater_pipeline_{path.stem}".replace("-", "_").replace(".", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadConfig(f"{path} is no Python file.", hint="Its name ends with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except HeadwaterError:
        raise
    except (Exception, SystemExit) as error:  # a file that ends the program would give no error
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = Path(last.filename).absolute() == path.absolute()
        where = f"line {last.lineno}" if own else f"{last.filename}, line {last.lineno}"
        raise BadConfig(f"{path} cannot be run: {type(error).__name__}: {error} ({where}).", hint="Mend the file.") from error
    travels(module)
    return module


def travels(module: ModuleType) -> None:
    """Send what a module defines to Spark's workers by value: they cannot import it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
