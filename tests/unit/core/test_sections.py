"""Sections that parts bring, plain and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from headwater.core.config import Config, load
from headwater.core.errors import BadConfig
from headwater.core.sections import NamedSection, Section
from headwater.core.settings import Note, Passed, Settings, every_setting
from headwater.core.units import Duration


class JournalLike(msgspec.Struct, frozen=True, kw_only=True):
    round: Annotated[Duration, Note("The pause between rounds.", '"250ms"')] = Duration(250)
    conf: Annotated[Passed, Note("Passed on.", '"a.b" = 1')] = msgspec.field(default_factory=Passed)


class QueueLike(msgspec.Struct, frozen=True, kw_only=True):
    lease: Annotated[Duration, Note("How long a claim lasts.", '"1h"', 1)] = Duration(3_600_000)
    max_timeouts: Annotated[int, Note("How often a lease may end.", "5", 1)] = 5


JOURNAL, QUEUES = Section("journal", JournalLike), NamedSection("queue", QueueLike)
SECTIONS = (JOURNAL, QUEUES)


def loaded(folder: Path, text: str = "", **environ: str) -> Config:
    (folder / "headwater.toml").write_text(text)
    return load(environ=environ, cwd=folder, sections=SECTIONS)


def origins(config: Config, prefix: str) -> dict[str, tuple[object, str]]:
    return {key: (value, origin.kind) for key, value, origin in config.shown() if key.startswith(prefix)}


def test_nothing_written_means_the_defaults(tmp_path: Path) -> None:
    settings = loaded(tmp_path).settings
    assert settings == Settings(data=tmp_path / "data")
    assert JOURNAL.of(settings) == JournalLike()
    assert QUEUES.of(settings, "pages") == QueueLike()
    assert QUEUES.names(settings) == []


def test_file_and_environment_fill_sections_by_name(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        [journal]
        round = "1s"
        [journal.conf]
        x.y = 2
        [queue.pages]
        lease = "60s"
        max_timeouts = 2
        [queue.mail]
        lease = "5m"
        [queue.empty]
        """,
        HEADWATER_QUEUE__PAGES__LEASE="30s",
        HEADWATER_QUEUE__OTHER__MAX_TIMEOUTS="9",
    )
    settings = config.settings
    assert JOURNAL.of(settings) == JournalLike(round=Duration(1000), conf=Passed({"x.y": "2"}))
    assert QUEUES.of(settings, "pages") == QueueLike(lease=Duration(30_000), max_timeouts=2)
    assert QUEUES.of(settings, "mail") == QueueLike(lease=Duration(300_000))
    assert QUEUES.of(settings, "other") == QueueLike(max_timeouts=9)
    assert QUEUES.names(settings) == ["mail", "other", "pages"]
    assert origins(config, "queue.") == {
        "queue.NAME.lease": ("1h", "default"),
        "queue.NAME.max_timeouts": (5, "default"),
        "queue.mail.lease": ("5m", "file"),
        "queue.mail.max_timeouts": (5, "default"),
        "queue.other.lease": ("1h", "default"),
        "queue.other.max_timeouts": (9, "environment"),
        "queue.pages.lease": ("30s", "environment"),
        "queue.pages.max_timeouts": (2, "file"),
    }
    assert origins(config, "journal.") == {"journal.round": ("1s", "file"), "journal.conf.x.y": ("2", "file")}


@pytest.mark.parametrize(
    ("written", "variable", "meant"),
    [
        ("slow-pages", "HEADWATER_QUEUE__SLOW_PAGES__LEASE", "slow-pages"),  # a shell knows no dash
        ("a.b", "HEADWATER_QUEUE__A__B__LEASE", "a.b"),
        ("a.b", "HEADWATER_QUEUE__A_B__LEASE", "a.b"),
        ("Pages", "HEADWATER_QUEUE__PAGES__LEASE", "Pages"),
        ("Pages", "HEADWATER_QUEUE__pages__LEASE", "pages"),  # as written
        ("other", "HEADWATER_QUEUE__SLOW_PAGES__LEASE", "slow_pages"),
        ("other", "HEADWATER_QUEUE__slow-pages__LEASE", "slow-pages"),
        ("other", "HEADWATER_QUEUE__7__LEASE", "7"),
    ],
)
def test_a_variable_means_the_name_of_the_file_that_is_like_it(tmp_path: Path, written: str, variable: str, meant: str) -> None:
    settings = loaded(tmp_path, f'[queue."{written}"]\nlease = "1s"', **{variable: "2s"}).settings
    assert QUEUES.of(settings, meant).lease == 2000
    assert QUEUES.names(settings) == sorted({written, meant})


def test_a_variable_that_may_mean_two_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"HEADWATER_QUEUE__A_B__LEASE may mean a-b or a\.b"):
        loaded(tmp_path, '[queue.a-b]\nlease = "1s"\n[queue."a.b"]\nlease = "1s"', HEADWATER_QUEUE__A_B__LEASE="2s")


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ('[queue.pages]\nleese = "1s"', "no setting `queue.pages.leese`", "`queue.pages.lease`"),
        ('[qeue.pages]\nlease = "1s"', "no setting `qeue.pages.lease`", "`queue.pages.lease`"),
        ('[journal]\nruond = "1s"', "no setting `journal.ruond`", "`journal.round`"),
        ('[queue]\nlease = "1s"', "`queue.lease`", "[queue.NAME]"),
        ("queue = 3", "`queue`", "[queue.NAME]"),
        ("[queue]\npages = 3", "`queue.pages`", "[queue.NAME]"),
        ('[queue.""]\nlease = "1s"', "no setting `queue..lease`", ""),
        ("[queue.pages]\nlease = 5", "no unit", 'lease = "1h"'),
        ("[queue.pages]\nmax_timeouts = 0", "from 1 upwards", "max_timeouts = 5"),
        ("[qeue.pages]", "no setting `qeue.pages`", ""),
        ('[queue.pages]\nlease = {a = "1s"}', "no setting `queue.pages.lease.a`", ""),
    ],
)
def test_what_is_wrong_is_refused_with_a_hint(tmp_path: Path, text: str, says: str, hint: str) -> None:
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path, text)
    assert says in caught.value.message
    assert hint in caught.value.hint


def test_an_unknown_variable_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="Did you mean HEADWATER_QUEUE__PAGES__LEASE"):
        loaded(tmp_path, HEADWATER_QUEUE__PAGES__LESE="1s")


def test_a_section_that_is_there_already_or_not_plain_is_a_mistake_of_the_part() -> None:
    with pytest.raises(TypeError, match="own"):
        list(every_setting([Section("server", JournalLike)]))
    with pytest.raises(TypeError, match="plain values"):
        list(every_setting([NamedSection("journal", JournalLike)]))
    with pytest.raises(TypeError, match="Two sections"):
        list(every_setting([JOURNAL, NamedSection("journal", QueueLike)]))
