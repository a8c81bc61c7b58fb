"""Relative paths in a definition mean the folder of the run, whoever opens them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.pipeline.adaptor import Adaptor
from headwater.pipeline.adaptors import file, http, kafka, mongodb, mysql, opensearch, postgres, rabbitmq, spark, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.env import Env, env
from headwater.pipeline.run_folder import absolute, in_folder

TLS = "postgresql://u:p@h/d?sslmode=verify-full&sslrootcert={}&connect_timeout=3"


@pytest.mark.parametrize(
    ("adaptor", "option", "means"),
    [
        (file("in.jsonl"), "uri", "/run/in.jsonl"),
        (file("out/"), "uri", "/run/out/"),
        (file("./in/*.csv"), "uri", "/run/./in/*.csv"),
        (file("file://in.jsonl"), "uri", "file:///run/in.jsonl"),
        (file("/in.jsonl"), "uri", "/in.jsonl"),
        (file("file:///in.jsonl"), "uri", "file:///in.jsonl"),
        (file("-"), "uri", "-"),
        (file("stdin://"), "uri", "stdin://"),
        (sqlite("a.db"), "path", "/run/a.db"),
        (spark("orc", path="orders"), "path", "/run/orders"),
        (spark("orc", path="s3a://bucket/orders"), "path", "s3a://bucket/orders"),
        (spark("orc", path="hdfs:/orders"), "path", "hdfs:/orders"),
        (spark("orc", staging="staged"), "staging", "/run/staged"),
        (opensearch("https://h:9200", ca="ca.pem"), "ca", "/run/ca.pem"),
        (rabbitmq("amqps://h/", ca="ca.pem", exchange="x"), "ca", "/run/ca.pem"),
        (http("https://h/", ca="ca.pem"), "ca", "/run/ca.pem"),
        (postgres(TLS.format("ca.pem")), "uri", TLS.format("/run/ca.pem")),
        (postgres(TLS.format("/ca.pem")), "uri", TLS.format("/ca.pem")),
        (postgres(TLS.format("system")), "uri", TLS.format("system")),
        (mysql("mysql://u@h/d?ssl_ca=ca.pem"), "uri", "mysql://u@h/d?ssl_ca=/run/ca.pem"),
        (mongodb("mongodb://h/d?tls=true&tlsCAFile=ca.pem"), "uri", "mongodb://h/d?tls=true&tlsCAFile=/run/ca.pem"),
        (
            kafka("h:9092", client={"ssl.ca.location": "ca.pem", "client.id": "me"}),
            "client",
            {"ssl.ca.location": "/run/ca.pem", "client.id": "me"},
        ),
    ],
)
def test_every_option_that_names_a_file(adaptor: Adaptor, option: str, means: Any) -> None:
    made = in_folder(adaptor, "/run")
    assert getattr(made, option) == means
    assert in_folder(made, "/elsewhere") == made


@pytest.mark.parametrize(
    ("given", "value", "means"),
    [
        ("${OUT}/x", "rel", "/run/${OUT}/x"),
        ("${OUT}/x", "/abs", "${OUT}/x"),
        ("${OUT}/x", None, "${OUT}/x"),
        (env("OUT"), "rel", "/run/${OUT}"),
        (env("OUT"), "/abs", env("OUT")),
        (env("OUT"), None, env("OUT")),
        (env("OUT", "rel"), None, "/run/rel"),
        (env("OUT", "/abs"), None, env("OUT", "/abs")),
    ],
)
def test_a_variable_stays_one_and_its_value_decides(
    given: str | Env, value: str | None, means: str | Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUT", raising=False)
    if value is not None:
        monkeypatch.setenv("OUT", value)
    assert absolute(given, "/run") == means


def test_a_complete_pipeline_means_the_same_in_another_folder_and_is_shown_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    pipeline = Pipeline("p", log_dir="own")
    pipeline.source("in", file("in.jsonl")).save("out", file("out/")).save("table", sqlite("o.db"))
    pipeline.complete().complete()
    assert pipeline.tree() == ["in: file(in.jsonl)  [.*]", "└ out: file(out/)  [.*]", "   └ table: sqlite(o.db)  [.*]"]
    adaptors: list[Any] = [pipeline.reader, *(sink.adaptor for sink in pipeline.sinks.values())]
    code = "import pickle, sys; print(*(str(getattr(a, a.__struct_fields__[0])) for a in pickle.load(sys.stdin.buffer)))"
    said = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(adaptors), cwd=tmp_path, capture_output=True, check=True)
    here = os.getcwd()
    assert said.stdout.decode().split() == [f"{here}/in.jsonl", f"{here}/out/", f"{here}/o.db"]
    assert pipeline.options.log_dir == f"{here}/own"
