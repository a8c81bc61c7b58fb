"""What `headwater pipeline about` tells of an adaptor, found by looking at it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from headwater.core.errors import BadConfig
from headwater.pipeline import adaptors
from headwater.pipeline.adaptor import About, Adaptor
from headwater.pipeline.options import options_of
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.pipeline.source_adaptor import CanCopy, CanTail


def class_of(name: str) -> type[Adaptor]:
    """The adaptor's class: what its making function returns. Errors: `UnknownAdaptor`; `BadConfig` for one that does not say."""
    made = inspect.signature(adaptors.find(name), eval_str=True).return_annotation
    if not (isinstance(made, type) and issubclass(made, Adaptor)):
        raise BadConfig(f"The adaptor {name} does not say what it makes.", hint="Its function needs a return annotation.")
    return made


def about_of(name: str) -> About:
    """What an adaptor says of itself. An adaptor with two names says its sample under the one that was asked for."""
    about = class_of(name).about
    return msgspec.structs.replace(about, sample=re.sub(r"^\w+\(", f"{name}(", about.sample))


def describe(name: str) -> dict[str, Any]:
    """Everything about an adaptor, as plain values."""
    kind = class_of(name)
    about = about_of(name)
    declared = options_of(kind)  # a function of another package may take options that its class does not declare
    options = [
        {
            "name": parameter.name,
            "default": None if parameter.default is inspect.Parameter.empty else repr(parameter.default),
            "meaning": declared[parameter.name].means.text if parameter.name in declared else "",
        }
        for parameter in inspect.signature(adaptors.find(name)).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    return {
        "name": name,
        "summary": about.summary,
        "namespace": about.namespace,
        "source": about.source,
        "sink": about.sink,
        "copies": issubclass(kind, CanCopy),
        "follows": issubclass(kind, CanTail),
        "delivery": kind.delivery if issubclass(kind, CanWrite) else None,
        "options": options,
        "sample": about.sample,
    }
