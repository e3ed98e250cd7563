# SPDX-License-Identifier: GPL-2.0-only
"""What the configuration file and the environment may say, and what a mistake there is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bigos.config import Config, load_config
from bigos.errors import ConfigError


def configured(home: Path, text: str) -> Config:
    file = home / "config.toml"
    file.write_text(text)
    return load_config({"HOME": str(home)}, config_file=file)


@pytest.mark.parametrize(
    ("text", "setting", "fix"),
    [
        ('colection = "x"', "'colection'", "did you mean collection?"),
        ("top_k = 3", "'top_k'", "known settings: "),
        ('[bigos]\ncollection = "x"', "'bigos'", "known settings: "),
    ],
)
def test_an_unknown_setting_in_the_file_is_told_with_the_right_one(
    tmp_path: Path, text: str, setting: str, fix: str
) -> None:
    with pytest.raises(ConfigError, match=rf"config\.toml has an unknown setting {setting}") as raised:
        configured(tmp_path, text)
    assert fix in str(raised.value)


def test_a_configuration_file_that_is_not_there_is_told_to_whoever_named_it(tmp_path: Path) -> None:
    missing = tmp_path / "no.toml"
    env = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match=f"hint: ls -la {tmp_path}"):
        load_config(env, config_file=missing)
    with pytest.raises(ConfigError, match="hint: unset BIGOS_CONFIG"):
        load_config(env | {"BIGOS_CONFIG": str(missing)})
