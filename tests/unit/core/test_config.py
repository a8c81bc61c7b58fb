from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.config import Config, Flag, Origin, load
from headwater.core.errors import BadConfig
from headwater.core.sections import ANY_NAME
from headwater.core.settings import MASK, KafkaSettings, Passed, Settings, every_setting


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str) -> Path:
        path = tmp_path / "headwater.toml"
        path.write_text(text, "utf-8")
        return path

    return write_file


def loaded(tmp_path: Path, environ: dict[str, str] | None = None, flags: dict[str, Flag] | None = None, file: Path | None = None) -> Config:
    return load(file=file, environ=environ or {}, flags=flags, cwd=tmp_path)


def origin(config: Config, key: str) -> str:
    return {name: str(where) for name, _, where in config.shown()}[key]


def shown(config: Config, key: str) -> object:
    return {name: value for name, value, _ in config.shown()}[key]


# -- the three sources ------------------------------------------------------------------------------------------


def test_without_anything_there_are_the_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path)
    assert config.settings == Settings(data=tmp_path / "data")
    assert {where.kind for _, _, where in config.shown()} == {"default"}
    assert config.file is None


def test_the_file_then_the_environment_then_flags(tmp_path: Path, write) -> None:
    file = write('data = "there"\n\n[server]\nport = 1\nhost = "a"\nmax_body = "1MiB"\n')
    config = loaded(tmp_path, {"HEADWATER_SERVER__PORT": "2", "HEADWATER_SERVER__HOST": "b"}, {"server.port": Flag("--port", 3)})
    assert (config.settings.server.port, config.settings.server.host, config.settings.server.max_body) == (3, "b", 1 << 20)
    assert origin(config, "server.port") == "--port"
    assert origin(config, "server.host") == "HEADWATER_SERVER__HOST"
    assert origin(config, "server.max_body") == f"{file}:6"
    assert origin(config, "data") == f"{file}:1"
    assert origin(config, "server.stop_grace") == "default"


def test_a_flag_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    assert origin(loaded(tmp_path, flags={"data": Flag("--data", None)}), "data") == "default"


def test_paths_are_relative_to_where_they_are_written(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "hw.toml").write_text('data = "d"\n[server]\ntoken_file = "/abs/tokens"\n')
    config = load(file=Path("etc/hw.toml"), environ={}, cwd=tmp_path)
    assert config.settings.data == etc / "d"
    assert config.settings.server.token_file == Path("/abs/tokens")
    config = load(environ={"HEADWATER_CONFIG": "etc/hw.toml", "HEADWATER_DATA": "e"}, cwd=tmp_path)
    assert config.settings.data == tmp_path / "e"


def test_the_named_file_outranks_the_variable(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[server]\nport = 1")
    config = load(file=Path("a.toml"), environ={"HEADWATER_CONFIG": "b.toml"}, cwd=tmp_path)
    assert config.settings.server.port == 1


def test_lists_units_choices_and_passed_on_settings(tmp_path: Path, write) -> None:
    write("""
        [log]
        engine = "kafka"
        segment = "1GiB"
        [kafka]
        bootstrap = "a:1, b:2"
        replication = 3
        [kafka.client]
        sasl.mechanism = "PLAIN"
        "socket.keepalive.enable" = true
        [spark]
        start = "never"
        [spark.conf]
        spark.sql.shuffle.partitions = 8
    """)
    config = loaded(
        tmp_path,
        {
            "HEADWATER_CASSANDRA__CONTACT_POINTS": "x, y:9042",
            "HEADWATER_KAFKA__CLIENT__SASL__USERNAME": "me",
            "HEADWATER_SPARK__CONF__spark__executor__memoryOverhead": "1g",
            "HEADWATER_SERVER__STOP_GRACE": "250ms",
            "OTHER_VARIABLE": "1",
            "HEADWATER_TOKEN": "not a setting",
        },
    )
    s = config.settings
    assert (s.log.engine, s.log.segment, s.kafka.bootstrap, s.kafka.replication, s.spark.start) == (
        "kafka",
        1 << 30,
        ("a:1", "b:2"),
        3,
        "never",
    )
    assert s.kafka.client == {"sasl.mechanism": "PLAIN", "socket.keepalive.enable": "true", "sasl.username": "me"}
    assert s.spark.conf == {"spark.sql.shuffle.partitions": "8", "spark.executor.memoryOverhead": "1g"}
    assert s.cassandra.contact_points == ("x", "y:9042")
    assert s.server.stop_grace.seconds == 0.25
    assert origin(config, "kafka.client.sasl.username") == "HEADWATER_KAFKA__CLIENT__SASL__USERNAME"


def test_loading_twice_shares_nothing(tmp_path: Path) -> None:
    loaded(tmp_path, {"HEADWATER_KAFKA__CLIENT__A": "1"})
    assert loaded(tmp_path).settings.kafka.client == {}


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("[server]\nprot = 1", "server.prot", "`server.port`"),
        ("[sever]\nport = 1", "sever.port", "`server.port`"),
        ('dtaa = "x"', "dtaa", "`data`"),
        ('[log]\nsegment_size = "1MiB"', "log.segment_size", "`log.segment`"),
        ("[server]\nfibres = 2", "server.fibres", ""),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(tmp_path: Path, write, text: str, key: str, near: str) -> None:
    file = write(text)
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path)
    assert f"`{key}` ({file}:" in caught.value.message
    assert near in caught.value.hint
    assert caught.value.exit_code == 2


def test_an_unknown_variable_is_answered_with_the_nearest_variable(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path, {"HEADWATER_SERVER_PORT": "1"})
    assert caught.value.hint == "Did you mean HEADWATER_SERVER__PORT?"


def test_a_key_like_nothing_known_points_to_the_list(tmp_path: Path, write) -> None:
    write("zzz = 1")
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path)
    assert "headwater config" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "says", "example"),
    [
        ('[server]\nport = "8420"', "whole number", "port = 8420"),
        ("[server]\nport = true", "whole number", "port = 8420"),
        ("[journal]\nreplicate = 1", "true or false", "replicate = true"),
        ('[journal]\nreplicate = "true"', "true or false", "replicate = true"),
        ("[server]\nport = 70000", "from 0 to 65535", "port = 8420"),
        ("[server]\nport = -1", "from 0 to 65535", "port = 8420"),
        ("[server]\nhost = 1", "text in quotes", 'host = "127.0.0.1"'),
        ('[server]\nhost = " "', "must not be empty", 'host = "127.0.0.1"'),
        ("[server]\nmax_body = 16", "no unit", 'max_body = "64MiB"'),
        ('[server]\nmax_body = "16"', "no unit", 'max_body = "64MiB"'),
        ('[server]\nmax_body = "0B"', "from 1B upwards", 'max_body = "64MiB"'),
        ("[server]\nstop_grace = 30", "no unit", 'stop_grace = "30s"'),
        ('[log]\nsegment = "2GiB"', "from 1B to", 'segment = "256MiB"'),
        ('[log]\nmax_record = "49MiB"', "from 1B to 48MiB", 'max_record = "16MiB"'),
        ('[log]\nengine = "pulsar"', "one of embedded, kafka", 'engine = "embedded"'),
        ('[kafka]\nbootstrap = "a:1,"', "list of texts", "bootstrap = ["),
        ("[kafka]\nbootstrap = [1]", "list of texts", "bootstrap = ["),
        ("[kafka]\nbootstrap = []", "list of texts", "bootstrap = ["),
        ('[kafka]\nbootstrap = "kafka://a:9092"', "kafka:// does not belong there", "Write a:9092. Write it such as bootstrap = ["),
        ('[kafka]\nbootstrap = ["a:1", "SASL_SSL://b:2/"]', "SASL_SSL:// does not belong there", "Write b:2."),
        ('[kafka]\nbootstrap = "a:x"', "host:port", "bootstrap = ["),
        ('[cassandra]\ncontact_points = "cassandra://n"', "cassandra:// does not belong there", "Write n."),
        ("[kafka]\nreplication = 0", "from 1 to", "replication = 3"),
        ("[kafka.client]\na = [1]", "a text, a number, true or false", "sasl.mechanism"),
        ("data = {a = 1}", "text in quotes", 'data = "data"'),
    ],
)
def test_a_value_that_does_not_fit_names_key_origin_and_example(tmp_path: Path, write, text: str, says: str, example: str) -> None:
    file = write(text)
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path)
    assert says in caught.value.message
    assert str(file) in caught.value.message
    assert example in caught.value.hint


@pytest.mark.parametrize("key", ["server", "kafka.client", "spark.conf"])
def test_a_section_is_no_value(tmp_path: Path, write, key: str) -> None:
    write(f"{key} = 3")
    with pytest.raises(BadConfig, match="is a section"):
        loaded(tmp_path)


@pytest.mark.parametrize("value", ["", "x", "1.5", "1" * 30])
def test_a_variable_that_is_no_number(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadConfig, match="HEADWATER_SERVER__PORT"):
        loaded(tmp_path, {"HEADWATER_SERVER__PORT": value})


def test_a_bad_value_is_refused_even_where_a_flag_replaces_it(tmp_path: Path, write) -> None:
    write("[server]\nport = 70000")
    with pytest.raises(BadConfig, match="65535"):
        loaded(tmp_path, flags={"server.port": Flag("--port", 1)})


def test_a_file_that_is_missing_broken_or_no_text(tmp_path: Path, write) -> None:
    with pytest.raises(BadConfig, match="There is no config file"):
        loaded(tmp_path, file=Path("nowhere.toml"))
    with pytest.raises(BadConfig, match="There is no config file"):
        loaded(tmp_path, {"HEADWATER_CONFIG": "nowhere.toml"})
    write("port : 1")
    with pytest.raises(BadConfig, match=r"is no TOML.*line 1"):
        loaded(tmp_path)
    (tmp_path / "headwater.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadConfig, match="cannot be read"):
        loaded(tmp_path)


def test_kafka_without_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"HEADWATER_LOG__ENGINE.*no broker") as caught:
        loaded(tmp_path, {"HEADWATER_LOG__ENGINE": "kafka"})
    assert "kafka.bootstrap" in caught.value.hint


def test_cassandra_without_a_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"HEADWATER_STORE__ENGINE.*no node") as caught:
        loaded(tmp_path, {"HEADWATER_STORE__ENGINE": "cassandra"})
    assert "cassandra.contact_points" in caught.value.hint
    settings = loaded(tmp_path, {"HEADWATER_STORE__ENGINE": "cassandra", "HEADWATER_CASSANDRA__CONTACT_POINTS": "a"}).settings
    assert (settings.store.engine, settings.cassandra.contact_points) == ("cassandra", ("a",))


def test_an_empty_section_must_be_a_known_one(tmp_path: Path, write) -> None:
    write("[server]\n[kafka.client]\n")
    loaded(tmp_path)
    write("[sever]\n")
    with pytest.raises(BadConfig, match="There is no setting `sever`"):
        loaded(tmp_path)


# -- secrets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "ssl.key.password",
        "sasl.oauthbearer.client.secret",
        "my.token",
        "ssl.key.pem",
        "fs.s3a.access.key",
        "sasl.jaas.config",
    ],
)
def test_secrets_are_masked_wherever_they_are_printed(tmp_path: Path, write, key: str) -> None:
    write(f'[kafka.client]\n"{key}" = "hunter2"')
    config = loaded(tmp_path)
    assert config.settings.kafka.client[key] == "hunter2"
    assert shown(config, f"kafka.client.{key}") == MASK
    assert "hunter2" not in repr(config)


def test_the_password_of_cassandra_is_used_and_never_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"HEADWATER_CASSANDRA__PASSWORD": "hunter2"})
    assert config.settings.cassandra.password == "hunter2"
    assert shown(config, "cassandra.password") == MASK
    assert "hunter2" not in repr(config)


def test_what_is_no_secret_is_shown(tmp_path: Path, write) -> None:
    write('[server]\ntoken_file = "/etc/tokens"\n[kafka.client]\n"sasl.mechanism" = "PLAIN"')
    config = loaded(tmp_path)
    assert shown(config, "server.token_file") == "/etc/tokens"
    assert shown(config, "kafka.client.sasl.mechanism") == "PLAIN"


def test_a_secret_inside_an_address_is_masked(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"HEADWATER_SPARK__REMOTE": "sc://me:hunter2@host:15002/;token=hunter3;x=1"})
    assert shown(config, "spark.remote") == f"sc://me:{MASK}@host:15002/;token={MASK};x=1"


def test_a_secret_of_the_wrong_type_is_masked_in_the_error(tmp_path: Path, write) -> None:
    write('[kafka.client]\n"sasl.password" = ["hunter2"]')
    with pytest.raises(BadConfig) as caught:
        loaded(tmp_path)
    assert "hunter2" not in str(caught.value)


def test_the_repr_of_settings_built_by_hand_is_masked() -> None:
    assert "hunter2" not in repr(KafkaSettings(client=Passed({"sasl.password": "hunter2"})))


# -- the list of settings ---------------------------------------------------------------------------------------


def test_every_example_is_a_value_that_is_accepted(tmp_path: Path, write) -> None:
    for setting in every_setting():
        section, _, name = setting.key.rpartition(".")
        line = setting.about.example if setting.passed_on else f"{name} = {setting.about.example}"
        section = setting.key if setting.passed_on else section
        write((f"[{section}]\n" if section else "") + line)
        config = loaded(tmp_path)
        assert [where.kind for key, _, where in config.shown() if f"{key}.".startswith(f"{setting.key}.")] == ["file"]


def test_what_is_shown_can_be_written_back(tmp_path: Path) -> None:
    """Every default, printed, is a valid value: what `headwater config` shows can be copied into the environment."""
    for key, value, _ in loaded(tmp_path).shown():
        if value is None or value == []:
            continue
        text = ",".join(value) if isinstance(value, list) else str(value)
        again = loaded(tmp_path, {"HEADWATER_" + key.replace(".", "__").upper(): text})
        named = key.replace(f".{ANY_NAME}.", f".{ANY_NAME.lower()}.")  # of a section by name, that of the one that is called so
        assert shown(again, named) == value
        assert origin(again, named).startswith("HEADWATER_")


def test_an_origin_reads_well() -> None:
    assert [str(Origin("default")), str(Origin("flag", "--port"))] == ["default", "--port"]


def test_a_truth_is_read_from_the_file_and_from_variables(tmp_path: Path) -> None:
    def replicate(environ: dict[str, str]) -> object:
        return {key: value for key, value, _ in load(cwd=tmp_path, environ=environ).shown()}["journal.replicate"]

    assert replicate({}) is True
    (tmp_path / "headwater.toml").write_text("[journal]\nreplicate = false\n")
    assert replicate({}) is False
    assert replicate({"HEADWATER_JOURNAL__REPLICATE": "true"}) is True
    with pytest.raises(BadConfig, match="true or false"):
        load(cwd=tmp_path, environ={"HEADWATER_JOURNAL__REPLICATE": "yes"})
