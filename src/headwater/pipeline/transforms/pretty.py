"""`pretty`: messages in the program's log, for looking at."""

from __future__ import annotations

import logging
import sys

import msgspec

from headwater.core.errors import BadConfig
from headwater.pipeline.message import Message
from headwater.pipeline.strict import strict
from headwater.pipeline.transform import Apply, Transform, one_by_one
from headwater.pipeline.values import encode

LOGGER = "headwater.pipeline.pretty"


class Pretty(Transform):
    """Made by `pretty`."""

    keeps_id = True

    def __init__(self, spaces: int) -> None:
        self.spaces, self.name = spaces, f"pretty(spaces={spaces})"

    def opened(self) -> Apply:
        logger, spaces = logging.getLogger(LOGGER), self.spaces
        if not logger.hasHandlers():  # in a Spark worker, where no logging is set up, messages of this level would vanish
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        between = "\n" if spaces else " "

        def call(message: Message) -> Message:
            text = msgspec.json.format(encode(message.data), indent=spaces).decode()
            logger.info("%s %s %d:%s%s", message.namespace, message.op.name.lower(), message.offset, between, text)
            return message

        return one_by_one(self, call)


@strict
def pretty(*, spaces: int = 2) -> Transform:
    """Write each message to the program's log, indented by `spaces` (0: on one line), and pass it on unchanged.

    Messages are logged at level info by the logger `headwater.pipeline.pretty`; inside Spark's workers, where no logging is set up, on
    their standard error, which Spark keeps in its log.
    """
    if not isinstance(spaces, int) or isinstance(spaces, bool) or not 0 <= spaces <= 16:
        raise BadConfig(f"pretty cannot indent by {spaces!r}.", hint="Give a whole number from 0 to 16.")
    return Pretty(spaces)
