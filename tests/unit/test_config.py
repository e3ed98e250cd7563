# SPDX-License-Identifier: GPL-2.0-only
"""One Config from four layers, and nothing of the machine that was not handed in."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bigos import chunking
from bigos.config import ENV_PREFIX, LEAST_CHUNK_TOKENS, load_config, setting_kinds
from bigos.errors import ConfigError, ExitCode
from processes import PATIENCE

HOME = {"HOME": "/home/ala"}


def toml(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_defaults_are_under_home_and_xdg_moves_them() -> None:
    plain = load_config(HOME)
    assert plain.data_dir == Path("/home/ala/.local/share/bigos")
    assert plain.cache_dir == Path("/home/ala/.cache/bigos")
    assert plain.state_dir == Path("/home/ala/.local/state/bigos")
    moved = load_config({**HOME, "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"})
    assert (moved.data_dir, moved.cache_dir, moved.state_dir) == (Path("/d/bigos"), Path("/c/bigos"), Path("/s/bigos"))
    assert (plain.embedder, plain.store, plain.max_files, plain.chunk_tokens) == ("onnx", "embedded", 5000, None)


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = toml(tmp_path, 'collection = "file"\nmax_files = 2\nworkers = 3\n')
    env = {**HOME, "BIGOS_CONFIG": str(file), "BIGOS_COLLECTION": "variable", "BIGOS_MAX_FILES": "20"}
    config = load_config(env, {"collection": "flag", "max_files": None, "threads": None})
    assert (config.collection, config.max_files, config.workers, config.threads) == ("flag", 20, 3, None)
    assert load_config({**env, "BIGOS_CONFIG": "/nowhere"}, config_file=file).workers == 3


def test_the_file_is_looked_for_under_the_configuration_directory(tmp_path: Path) -> None:
    (tmp_path / "bigos").mkdir()
    toml(tmp_path / "bigos", "workers = 7\n")
    assert load_config({**HOME, "XDG_CONFIG_HOME": str(tmp_path)}).workers == 7
    (tmp_path / ".config").mkdir()
    (tmp_path / "bigos").rename(tmp_path / ".config" / "bigos")
    assert load_config({"HOME": str(tmp_path)}).workers == 7


@pytest.mark.parametrize(
    ("text", "where"),
    [("workers = ", "Invalid value"), ("\x00", "cannot be read"), ('workers = "a\n', "cannot be read")],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: str, where: str) -> None:
    file = toml(tmp_path, text)
    with pytest.raises(ConfigError, match=where) as refusal:
        load_config(HOME, config_file=file)
    assert refusal.value.fix == f"edit {file}"


def test_a_configuration_file_that_is_not_there_is_told_to_whoever_named_it(tmp_path: Path) -> None:
    missing = tmp_path / "no.toml"
    with pytest.raises(ConfigError, match=rf"does not exist\.\nhint: ls -la {tmp_path}"):
        load_config(HOME, config_file=missing)
    with pytest.raises(ConfigError, match=r"does not exist\.\nhint: unset BIGOS_CONFIG"):
        load_config(HOME | {"BIGOS_CONFIG": str(missing)})


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'collection = "\xe9"')
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(HOME, config_file=tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("env", "flags", "text", "where"),
    [
        ({"BIGOS_COLECTION": "x"}, {}, "", "the variable BIGOS_COLECTION"),
        ({}, {"colection": "x"}, "", "the command line"),
        ({}, {}, 'colection = "x"', "config.toml"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_one(
    tmp_path: Path, env: dict[str, str], flags: dict[str, object], text: str, where: str
) -> None:
    with pytest.raises(ConfigError, match="unknown setting 'colection'") as refusal:
        load_config(HOME | env, flags, toml(tmp_path, text))
    assert where in refusal.value.message
    assert refusal.value.fix == "did you mean collection?"
    assert refusal.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("text", ["top_k = 3", "[zzz]\ncollection = 1"])
def test_an_unknown_setting_like_none_other_lists_them_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml has an unknown setting") as refusal:
        load_config(HOME, config_file=toml(tmp_path, text))
    assert all(name in refusal.value.fix for name in setting_kinds())


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("workers = true", "int"),
        ("workers = 1.5", "int"),
        ('workers = "many"', "int"),
        ("workers = [1]", "int"),
        ("max_files = {}", "int"),
        ("parse_timeout = false", "float"),
        ("collection = 5", "str"),
        ("data_dir = 5", "Path"),
        ('data_dir = ""', "Path"),
        ('embedder = "word2vec"', "Literal['onnx', 'ollama', 'openai']"),
        ("store = 1", "Literal['embedded', 'server']"),
        ("exclude = [1]", "tuple"),
        ("exclude = 1", "tuple"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_what_was_wanted(tmp_path: Path, line: str, wanted: str) -> None:
    key = line.split(maxsplit=1)[0]
    with pytest.raises(ConfigError, match=f"{key} cannot be") as refusal:
        load_config(HOME, config_file=toml(tmp_path, line))
    assert f"(wanted {wanted}" in refusal.value.message
    assert refusal.value.fix == f"correct {key}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKERS", "0"),
        ("THREADS", "-1"),
        ("PARSE_TIMEOUT", "0"),
        ("PARSE_TIMEOUT", "nan"),
        ("LOCK_TIMEOUT", "inf"),
        ("CHUNK_OVERLAP", "-1"),
        ("COLLECTION", "a/b"),
        ("COLLECTION", ""),
        ("COLLECTION", ".."),
        ("COLLECTION", "ż" * 120),
        ("CHUNK_TOKENS", "7"),
        ("THREADS", "100000"),
        ("WORKERS", "100000"),
        ("PARSE_MEMORY_MB", "9" * 20),
        ("PARSE_MEMORY_MB", "100"),
        ("MAX_FILES", ""),
        ("EMBEDDER", ""),
    ],
)
def test_a_number_or_name_that_cannot_work_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name.lower()):
        load_config({**HOME, ENV_PREFIX + name: value})


def test_the_smallest_window_is_the_chunkers() -> None:
    assert LEAST_CHUNK_TOKENS == chunking.SMALLEST_WINDOW


def test_a_relative_home_is_refused_and_a_relative_xdg_folder_ignored() -> None:
    with pytest.raises(ConfigError, match="HOME is 'here'"):
        load_config({"HOME": "here"})
    assert load_config({"HOME": "/h", "XDG_DATA_HOME": "here"}).data_dir == Path("/h/.local/share/bigos")


def test_a_path_with_nul_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "c.toml").write_text('data_dir = "a\\u0000b"', encoding="utf-8")
    with pytest.raises(ConfigError, match="data_dir cannot be"):
        load_config(HOME, config_file=file)


def test_no_overlap_is_an_overlap() -> None:
    assert load_config({**HOME, "BIGOS_CHUNK_OVERLAP": "0"}).chunk_overlap == 0


def test_a_tilde_is_the_home_that_was_handed_in(tmp_path: Path) -> None:
    file = toml(tmp_path, 'data_dir = "~/index"\ncache_dir = "~"\nstate_dir = "here"\n')
    config = load_config(HOME, config_file=file)
    assert (config.data_dir, config.cache_dir) == (Path("/home/ala/index"), Path("/home/ala"))
    assert config.state_dir == Path.cwd() / "here"


def test_a_list_is_a_toml_array_or_separated_by_colons(tmp_path: Path) -> None:
    file = toml(tmp_path, 'exclude = ["drafts", "*.bak"]')
    assert load_config(HOME, config_file=file).exclude == ("drafts", "*.bak")
    assert load_config({**HOME, "BIGOS_EXCLUDE": "drafts:*.bak"}).exclude == ("drafts", "*.bak")
    assert load_config({**HOME, "BIGOS_EXCLUDE": ""}).exclude == ()


def test_variables_for_tests_are_not_settings() -> None:
    assert load_config({**HOME, "BIGOS_TEST_SERVER": "x"}) == load_config(HOME)


def test_models_are_the_checkouts_unless_told_otherwise() -> None:
    assert load_config(HOME).models_dir == Path(__file__).parents[2] / "models"
    assert load_config({**HOME, "BIGOS_MODELS_DIR": "/m"}).models_dir == Path("/m")


PATHS = st.text("abc/ąé .", min_size=1, max_size=12).map(lambda text: "/" + text)
COUNTS = st.integers(1, 10**9)
SECONDS = st.floats(0.001, 1e9)
NAMES = st.text("abc: -ż", min_size=1, max_size=9)
URLS = st.sampled_from(["http://localhost:1234", "https://example.org/base/v1", "http://[::1]:7"])
VALUES: dict[str, st.SearchStrategy[object]] = {
    "data_dir": PATHS,
    "cache_dir": PATHS,
    "state_dir": PATHS,
    "models_dir": PATHS,
    "calibration_dir": PATHS,
    "lexicon_dir": PATHS,
    "embedder": st.sampled_from(["onnx", "ollama", "openai"]),
    "store": st.sampled_from(["embedded", "server"]),
    "ollama_url": URLS,
    "ollama_model": NAMES,
    "openai_url": URLS,
    "openai_model": NAMES,
    "openai_api_key": NAMES,
    "openai_api_key_env": st.just("KEY_OF_A_SERVICE"),
    "openai_query_prefix": NAMES,
    "openai_document_prefix": NAMES,
    "openai_max_tokens": COUNTS,
    "embed_requests": st.integers(1, 256),
    "embed_timeout": SECONDS,
    "embed_load_timeout": SECONDS,
    "qdrant_url": URLS,
    "qdrant_api_key": NAMES,
    "qdrant_ca_file": PATHS,
    "qdrant_grpc": st.booleans(),
    "qdrant_grpc_port": st.integers(1, 65535),
    "qdrant_timeout": SECONDS,
    "qdrant_wait": SECONDS,
    "qdrant_shards": st.integers(1, 10_000),
    "qdrant_replicas": st.integers(1, 1000),
    "ocr": st.sampled_from(["auto", "never", "always"]),
    "ocr_languages": NAMES,
    "collection": st.text("abcxyz019_-", min_size=1, max_size=12).filter(lambda text: text.strip("_-")),
    "chunk_tokens": st.integers(8, 10**9),
    "chunk_overlap": st.integers(0, 10**6),
    "max_file_bytes": COUNTS,
    "max_document_bytes": COUNTS,
    "max_code_bytes": COUNTS,
    "code_names": st.lists(st.text("abc*.=", min_size=1, max_size=8), max_size=4),
    "max_files": COUNTS,
    "workers": st.integers(1, 256),
    "threads": st.integers(1, 1024),
    "parse_timeout": SECONDS,
    "parse_memory_mb": st.integers(1024, 10**6),
    "lock_timeout": SECONDS,
    "exclude": st.lists(st.text("abc*.", min_size=1, max_size=8), max_size=4),
    "allowed_roots": st.lists(PATHS, max_size=3),
    "denied_patterns": st.lists(st.text("abc*.", min_size=1, max_size=8), max_size=4),
}


def written(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_every_setting_means_the_same_in_the_file_and_in_a_variable(tmp_path: Path, values: dict[str, object]) -> None:
    assert VALUES.keys() == setting_kinds().keys(), "a new setting belongs into VALUES"
    file = toml(tmp_path, "".join(f"{key} = {written(value)}\n" for key, value in values.items()))
    env = {
        ENV_PREFIX + key.upper(): ":".join(value) if isinstance(value, list) else str(value)
        for key, value in values.items()
    }
    service = {"KEY_OF_A_SERVICE": "secret"}
    from_file = load_config(HOME | service, config_file=file)
    assert from_file == load_config(HOME | service | env)
    for key, value in values.items():
        expected = (
            Path(str(value))
            if key.endswith(("_dir", "_file"))
            else tuple(map(Path, value))
            if key == "allowed_roots" and isinstance(value, list)
            else tuple(value)
            if isinstance(value, list)
            else value
        )
        assert getattr(from_file, key) == expected
    flags = {name: getattr(from_file, name) for name in setting_kinds()}
    assert load_config({}, flags) == from_file


NO_PEEKING = """
from bigos.config import load_config
import sys
config = load_config({})
print(config.data_dir, config.collection, sep="\\n")
"""


def test_the_real_environment_is_never_read(tmp_path: Path) -> None:
    file = toml(tmp_path, "nonsense = 1")
    env = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "BIGOS_COLLECTION": "real", "BIGOS_CONFIG": str(file)}
    done = subprocess.run([sys.executable, "-c", NO_PEEKING], env=env, capture_output=True, text=True, timeout=PATIENCE)
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert done.stdout.splitlines() == [f"{home}/.local/share/bigos", "bigos"], done.stderr


def test_a_key_comes_from_the_variable_that_the_file_names_and_is_never_shown(tmp_path: Path) -> None:
    file = toml(tmp_path, 'openai_api_key_env = "KEY_OF_A_SERVICE"\n')
    config = load_config({**HOME, "KEY_OF_A_SERVICE": "geheim"}, config_file=file)
    assert config.openai_api_key == "geheim"
    assert "geheim" not in repr(config)
    with pytest.raises(ConfigError, match="KEY_OF_A_SERVICE, which is not set") as refusal:
        load_config(HOME, config_file=file)
    assert refusal.value.fix == "export KEY_OF_A_SERVICE=..."
    with pytest.raises(ConfigError) as refusal:
        load_config(HOME, config_file=toml(tmp_path, 'qdrant_api_key = ["geheim"]\n'))
    assert "geheim" not in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["localhost:6333", "", "ftp://host", "http://", "http://host:notaport", "http://[::1", "http://h/?a=1"]
)
def test_an_address_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"qdrant_url must begin with http:// or https:// and a host"):
        load_config({**HOME, "BIGOS_QDRANT_URL": url})


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("No", False), ("0", False)])
def test_a_switch_is_said_in_words_or_digits(text: str, value: bool) -> None:
    assert load_config({**HOME, "BIGOS_QDRANT_GRPC": text}).qdrant_grpc is value
    with pytest.raises(ConfigError, match="qdrant_grpc cannot be 'maybe'"):
        load_config({**HOME, "BIGOS_QDRANT_GRPC": "maybe"})


def test_a_wrong_address_is_shown_without_its_password() -> None:
    with pytest.raises(ConfigError) as refusal:
        load_config({**HOME, "BIGOS_QDRANT_URL": "htp://ala:geheim@host"})
    assert "geheim" not in str(refusal.value)
    assert "***@host" in str(refusal.value)
