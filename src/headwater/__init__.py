"""headwater: one log at the source; everything downstream is rebuilt from it.

>>> import headwater
>>> with headwater.open_blocking("./data", create=True) as hw:
...     hw.log.create_topic("greetings")
...     hw.log.append("greetings", 0, [headwater.Record(key=b"en", value=b"hello")])
"""

from __future__ import annotations

from headwater.client.blocking import Blocking, open_blocking
from headwater.client.door import Headwater, open
from headwater.core.errors import HeadwaterError
from headwater.log.record import Bounds, Compacted, Mode, Record, Topic, TopicSettings

__all__ = [
    "Blocking",
    "Bounds",
    "Compacted",
    "Headwater",
    "HeadwaterError",
    "Mode",
    "Record",
    "Topic",
    "TopicSettings",
    "open",
    "open_blocking",
]
