# SPDX-License-Identifier: GPL-2.0-only
"""One frozen Config: defaults < config.toml < BIGOS_* variables < flags.

The only module that reads the environment. `load_config` is pure: everything it looks at is an argument, so a test
never has to touch the process.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bigos.denied import DENIED_PATTERNS
from bigos.errors import ConfigError

ENV_PREFIX = "BIGOS_"
LEAST_PARSE_MEMORY_MB = 1024
LEAST_CHUNK_TOKENS = 8
"""The smallest window that the chunker cuts."""
_MOST = {
    "threads": 1024,
    "workers": 256,
    "parse_memory_mb": 1 << 30,
    "max_file_bytes": 1 << 50,
    "max_document_bytes": 1 << 50,
    "max_code_bytes": 1 << 50,
    "embed_requests": 256,
    "qdrant_grpc_port": 65535,
    "qdrant_shards": 10_000,
    "qdrant_replicas": 1000,
}
"""What is more would never come to its first file, or is no number for the system."""
_LONGEST_COLLECTION = 200  # bytes; a file name may have 255
_SWITCHES: Mapping[object, bool] = {
    True: True, False: False, "true": True, "false": False, "1": True, "0": False, "yes": True, "no": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting there is. A field's name is its TOML key; BIGOS_ + upper case is its variable."""

    data_dir: Path
    cache_dir: Path
    state_dir: Path
    models_dir: Path
    calibration_dir: Path
    """The texts whose vectors give the language means."""
    lexicon_dir: Path
    """Polish-English word lists, by which a question's words are also looked for in the other language."""
    embedder: Literal["onnx", "ollama", "openai"] = "onnx"
    store: Literal["embedded", "server"] = "embedded"
    collection: str = "bigos"
    ollama_url: str = "http://127.0.0.1:11434"
    ollama_model: str = "bge-m3"
    openai_url: str = "http://127.0.0.1:8080/v1"
    """Base of an OpenAI-compatible service: `/embeddings` is asked below it."""
    openai_model: str = ""
    openai_api_key: str | None = field(default=None, repr=False)
    openai_api_key_env: str | None = None
    """Name of the environment variable that holds the key, so that no file has to."""
    openai_query_prefix: str = ""
    openai_document_prefix: str = ""
    openai_max_tokens: int = 512
    """Tokens that the model behind openai_url takes, its special ones included."""
    embed_requests: int = 2
    """Requests to an embedding service that may be under way at once."""
    embed_timeout: float = 120.0
    """Seconds to wait for the vectors of one request."""
    embed_load_timeout: float = 600.0
    """Seconds to wait for the first one, which loads the model."""
    qdrant_url: str = "http://127.0.0.1:6333"
    qdrant_api_key: str | None = field(default=None, repr=False)
    qdrant_ca_file: Path | None = None
    """Certificate authorities to trust for an https:// qdrant_url; None takes the system's."""
    qdrant_grpc: bool = False
    qdrant_grpc_port: int = 6334
    qdrant_timeout: float = 30.0
    """Seconds to wait for one answer."""
    qdrant_wait: float = 60.0
    """Seconds to wait for a server that is not up yet, as after boot."""
    qdrant_shards: int = 1
    """Shards of a collection that Bigos creates: as many as the cluster has nodes, or a multiple."""
    qdrant_replicas: int = 1
    """Copies of each shard of a collection that Bigos creates."""
    ocr: Literal["auto", "never", "always"] = "auto"
    """Pages to recognise from their image: those without text, none, or all."""
    ocr_languages: str = "pol+eng"
    """Tesseract's names of the languages on scanned pages."""
    chunk_tokens: int | None = None
    """Tokens a window; None takes what the model was measured to like best."""
    chunk_overlap: int | None = None
    """Tokens shared with the window before; None goes with the model's window."""
    max_file_bytes: int = 50_000_000
    """Larger files are counted as "too large" and not read: a 200 MB log would take hours to embed."""
    max_document_bytes: int = 500_000_000
    """The same of PDF, DjVu and image files, which are mostly images."""
    max_code_bytes: int = 1_000_000
    """Larger source files are skipped as generated."""
    code_names: tuple[str, ...] = ()
    """File names that are code beside those known, "GLOB=LANGUAGE" each: "*.foo=c", "Jamfile=make"."""
    max_files: int = 5000
    workers: int | None = None
    """Worker processes that load and chunk; None is one for four cores, and inline for a handful of files."""
    threads: int | None = None
    """Threads of the in-process model; None is one a core."""
    parse_timeout: float = 120.0
    """Seconds that one file may take to load and chunk."""
    parse_memory_mb: int = 4096
    """Address space in MiB that a worker process may use."""
    lock_timeout: float = 60.0
    """Seconds to wait for another process that has the store open."""
    exclude: tuple[str, ...] = field(default=())
    allowed_roots: tuple[Path, ...] | None = None
    """Folders that files may be read from; None is the home directory and the current project (see allowed.py)."""
    denied_patterns: tuple[str, ...] = DENIED_PATTERNS
    """Names of files and folders that are never read, wherever they are (see denied.py)."""
    config_file: Path | None = field(default=None, compare=False)
    """Not a setting: the file that the settings came from, whether or not it exists."""


def setting_kinds() -> dict[str, Any]:
    """Every setting's type by its name."""
    return {name: kind for name, kind in typing.get_type_hints(Config).items() if name != "config_file"}


def user_environment() -> dict[str, str]:
    """The process environment, read here and nowhere else."""
    return dict(os.environ)  # noqa: TID251 - this is the one place


def user_home() -> Path:
    """The home directory of whoever runs this process. Raises ConfigError when there is none."""
    return _home(user_environment())


def configuration_folder(env: Mapping[str, str]) -> Path:
    """Where the configuration is looked for unless it is named."""
    return _base(env, _home(env), "XDG_CONFIG_HOME", ".config")


def refuse_telemetry() -> None:
    """Keep ONNX Runtime from reporting to its maker, and from leaving a device id and a database in the user's cache.

    Since 1.32 it does both by default on Linux, from the moment it is imported; so this has to come first. Switching it
    off through its own API (`disable_telemetry_events`) comes too late.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # noqa: TID251 - see user_environment


def one_thread_a_page() -> None:
    """Have tesseract read each page with one thread, unless the user says otherwise.

    As many pages as there are cores, with one thread each, is faster than four threads a page.
    """
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # noqa: TID251 - see user_environment


def load_config(
    env: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    config_file: Path | None = None,
) -> Config:
    """Put the four layers together.

    Args:
        env: the environment; HOME, XDG_* and BIGOS_* are looked at.
        flags: field name -> value from the command line; None means that the flag was not given.
        config_file: the TOML file; by default BIGOS_CONFIG or ~/.config/bigos/config.toml, which need not exist.

    Raises:
        ConfigError: an unknown key or a value of the wrong type, with the nearest right key.
    """
    home = _home(env)
    values: dict[str, Any] = {
        "data_dir": _base(env, home, "XDG_DATA_HOME", ".local/share"),
        "cache_dir": _base(env, home, "XDG_CACHE_HOME", ".cache"),
        "state_dir": _base(env, home, "XDG_STATE_HOME", ".local/state"),
    }
    named = config_file or (Path(env[ENV_PREFIX + "CONFIG"]) if env.get(ENV_PREFIX + "CONFIG") else None)
    file = named or configuration_folder(env) / "config.toml"
    if named is not None and not _may_be_file(named):
        advice = f"ls -la {named.absolute().parent}" if config_file else f"unset {ENV_PREFIX}CONFIG"
        raise ConfigError(f"the configuration file {named} does not exist.", fix=advice)
    kinds = setting_kinds()
    for key, value in _read_toml(file).items():
        known = _known_key(key, kinds, str(file))
        values[known] = _convert(known, value, kinds[known], home, str(file))
    for name, raw in sorted(env.items()):
        if name.startswith(ENV_PREFIX) and name != ENV_PREFIX + "CONFIG" and not name.startswith(ENV_PREFIX + "TEST_"):
            key = _known_key(name.removeprefix(ENV_PREFIX).lower(), kinds, f"the variable {name}")
            values[key] = _convert(key, raw, kinds[key], home, name)
    for key, value in (flags or {}).items():
        if value is not None:
            values[_known_key(key, kinds, "the command line")] = value
    if "denied_patterns" in values:
        shown = values["denied_patterns"]
        values["denied_patterns"] = tuple(f"{home}{name[1:]}" if name.startswith("~/") else name for name in shown)
    values.setdefault("models_dir", _checkout("models") or values["data_dir"] / "models")
    values.setdefault("calibration_dir", _checkout("data/calibration") or values["data_dir"] / "calibration")
    values.setdefault("lexicon_dir", _checkout("data/lexicon") or values["data_dir"] / "lexicon")
    named_key = values.get("openai_api_key_env")
    if named_key and values.get("openai_api_key") is None:
        if not env.get(named_key):
            raise ConfigError(
                f"openai_api_key_env names the variable {named_key}, which is not set.", fix=f"export {named_key}=..."
            )
        values["openai_api_key"] = env[named_key]
    config = Config(**values, config_file=file)
    _check(config)
    return config


def _home(env: Mapping[str, str]) -> Path:
    """HOME, else what the system's user database says. Not Path.home(), which looks at the process's environment."""
    import pwd

    try:
        home = Path(env.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise ConfigError("there is no HOME, and the system does not know this user.", fix="export HOME=...") from error
    if not home.is_absolute():
        raise ConfigError(f"HOME is {str(home)!r}, which is not absolute.", fix="export HOME=/home/you")
    return home


def _base(env: Mapping[str, str], home: Path, variable: str, fallback: str) -> Path:
    named = Path(env.get(variable) or "")
    # A relative one is to be ignored, says the XDG specification: the index would be another in each folder.
    return (named if named.is_absolute() else home / fallback) / "bigos"


def _may_be_file(path: Path) -> bool:
    """Whether to try to read it: what cannot even be looked at is told in the system's words when it is read."""
    try:
        return path.is_file()
    except OSError:
        return True


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error}.", fix=f"edit {file}") from error


def _known_key(key: str, kinds: Mapping[str, object], where: str) -> str:
    if key in kinds:
        return key
    near = difflib.get_close_matches(key, kinds, n=1)
    advice = f"did you mean {near[0]}?" if near else "known settings: " + ", ".join(sorted(kinds))
    raise ConfigError(f"{where} has an unknown setting {key!r}.", fix=advice)


def _convert(key: str, value: object, kind: Any, home: Path, where: str) -> object:
    """A TOML value or a variable's text as the field's type; a variable's list is separated by colons."""
    try:
        return _as(value, kind, home)
    except (
        TypeError,
        ValueError,
        KeyError,
        OverflowError,
        OSError,
    ) as error:  # OSError: a relative path in a deleted folder
        wanted = kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")
        shown = "what it is" if key.endswith("_key") else repr(value)  # a secret is not shown
        raise ConfigError(f"{where}: {key} cannot be {shown} (wanted {wanted}).", fix=f"correct {key}") from error


def _as(value: object, kind: Any, home: Path) -> object:
    origin = typing.get_origin(kind)
    if origin is Literal:
        if value not in typing.get_args(kind):
            raise ValueError(value)
        return value
    if origin in (typing.Union, types.UnionType):
        inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
        return _as(value, inner[0], home)
    if origin is tuple:
        parts = value.split(":") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise TypeError(value)
        return tuple(_as(part, typing.get_args(kind)[0], home) for part in parts if part)
    if kind is Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise TypeError(value)
        return home / value[2:] if value == "~" or value.startswith("~/") else Path(value).absolute()
    if kind is bool:
        return _SWITCHES[value.lower()] if isinstance(value, str) else _SWITCHES[value]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError(value)
    if kind is int and isinstance(value, float):
        raise TypeError(value)
    if kind is str and not isinstance(value, str):
        raise TypeError(value)
    return kind(value)


def _checkout(folder: str) -> Path | None:
    """A folder of the checkout that Bigos runs from; None when it runs from none."""
    checkout = Path(__file__).resolve().parents[2]
    return checkout / folder if (checkout / "pyproject.toml").is_file() else None


def _check_url(name: str, value: str) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        whole = whole and not (parts.query or parts.fragment)
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            f"{name} must begin with http:// or https:// and a host, not {re.sub('//.*@', '//***@', value)!r}.",
            fix=f"correct {name}",
        )


def _check(config: Config) -> None:
    for spec in dataclasses.fields(config):
        value = getattr(config, spec.name)
        if isinstance(value, bool):
            continue
        if spec.name.endswith("_url"):
            _check_url(spec.name, value)
        if isinstance(value, (int, float)) and spec.name != "chunk_overlap" and not 0 < value < math.inf:
            raise ConfigError(
                f"{spec.name} must be a finite number above zero, not {value}.", fix=f"correct {spec.name}"
            )
        if isinstance(value, (int, float)) and value > _MOST.get(spec.name, value):
            raise ConfigError(
                f"{spec.name} must be {_MOST[spec.name]} at most, not {value}.", fix=f"correct {spec.name}"
            )
    if config.chunk_tokens is not None and config.chunk_tokens < LEAST_CHUNK_TOKENS:
        raise ConfigError(
            f"chunk_tokens must be at least {LEAST_CHUNK_TOKENS}, not {config.chunk_tokens}.",
            fix="correct chunk_tokens",
        )
    if config.chunk_overlap is not None and config.chunk_overlap < 0:
        raise ConfigError("chunk_overlap must not be below zero.", fix="correct chunk_overlap")
    if config.parse_memory_mb < LEAST_PARSE_MEMORY_MB:
        raise ConfigError(
            f"parse_memory_mb must be at least {LEAST_PARSE_MEMORY_MB}, not {config.parse_memory_mb}: the vocabulary "
            "alone takes most of that.",
            fix="correct parse_memory_mb",
        )
    if not config.collection or not config.collection.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"collection cannot be {config.collection!r}: letters, digits, - and _.", fix="rename it")
    if len(os.fsencode(config.collection)) > _LONGEST_COLLECTION:
        raise ConfigError(f"collection must be {_LONGEST_COLLECTION} bytes long at most.", fix="shorten its name")
