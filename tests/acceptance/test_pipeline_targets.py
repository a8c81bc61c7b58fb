"""Targets that two installations share, and files that somebody else rotates: refused through the real program, with what to type."""

from __future__ import annotations

import signal
from pathlib import Path

from forked_program import ForkedProgram
from pipeline_home import KILLED, SHOP, Home, ended, followed, wait_until

SINGLE = """
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file

p = Pipeline("shop")
p.source("orders", file("orders.jsonl")).save("archive", file("archive.jsonl"))
"""


def test_two_data_directories_do_not_write_to_one_target(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(30)
    home.write("shop.py", followed(home.data, SHOP, (tmp_path / "orders.jsonl").read_text().splitlines()))
    running = home.start("pipeline", "run", "shop.py", "--follow")
    try:
        wait_until(lambda: (tmp_path / "archive").is_dir() and home.ids("archive") == list(range(30)), running)
        wait_until(lambda: home.positions() == {"archive": 29, "report": 29}, running)
        for asked in ((), ("--take-over", "archive", "--take-over", "report")):
            ran = home.pipeline("run", "shop.py", "--data", "other", *asked)
            assert ran.code == 4, ran.err
            assert "A run on " in ran.err
            assert "Two logs cannot share one." in ran.err
    finally:
        assert ended(running, by=[signal.SIGKILL]).code == KILLED
    ran = home.pipeline("run", "shop.py", "--data", "other")
    assert ran.code == 4, ran.err
    assert f"whose log is at {home.data}" in ran.err
    assert "--take-over " in ran.err
    assert home.ids("archive") == list(range(30))
    ran = home.pipeline("run", "shop.py", "--data", "other", "--take-over", "archive", "--take-over", "report")
    assert ran.code == 0, ran.err
    assert home.ids("archive") == list(range(30))
    assert home.rows("select count(*) from orders") == [(30,)]
    assert home.pipeline("run", "shop.py", "--data", "other").code == 0  # it is its own now
    ran = home.pipeline("run", "shop.py")
    assert ran.code == 4, ran.err
    assert home.pipeline("run", "shop.py", "--take-over", "nothing").code == 3


def test_a_rotated_file_is_left_alone_until_an_operator_says_what_it_is(tmp_path: Path, forked_program: ForkedProgram) -> None:
    home = Home(tmp_path, forked_program)
    home.documents(5)
    home.write("shop.py", SINGLE)
    assert home.pipeline("run", "shop.py").code == 0
    (tmp_path / "archive.jsonl").rename(tmp_path / "archive.1")
    ran = home.pipeline("run", "shop.py", "--again")
    assert ran.code == 8, ran.err
    assert "archive.jsonl is gone. Nothing was written." in ran.err
    assert not (tmp_path / "archive.jsonl").exists()
    assert home.pipeline("verify", "shop", "archive").code == 8
    ran = home.pipeline("step", "shop", "archive")
    assert ran.code == 8, ran.err
    assert "headwater pipeline offset shop mark archive 5 --why" in ran.err  # as it was told
    assert home.pipeline("offset", "shop", "mark", "archive", "5", "--why", "rotated").code == 0
    assert home.pipeline("run", "shop.py").code == 0
    assert home.ids("archive.jsonl") == list(range(5))
    assert home.ids("archive.1") == list(range(5))
