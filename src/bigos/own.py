# SPDX-License-Identifier: GPL-2.0-only
"""What Bigos keeps for itself on the disk: no walk enters it, whatever folder the walk begins in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bigos.config import Config, configuration_folder, user_environment
from bigos.errors import UsageError
from bigos.types import path_text


def own_places(config: Config) -> dict[Path, str]:
    """The files and folders that Bigos writes into or is configured by, with the name of each."""
    places = {getattr(config, name): name for name in ("models_dir", "state_dir", "cache_dir", "data_dir")}
    for configuration in (config.config_file, configuration_folder(user_environment())):
        if configuration is not None:
            places[configuration] = "configuration"
    return places


class OwnPlaces:
    """Such places without links, to be asked whether a path is in one. A place need not exist."""

    def __init__(self, places: Mapping[Path, str]) -> None:
        self._names = {os.path.realpath(path): name for path, name in places.items()}
        self.parents = frozenset(path.rpartition("/")[0] or "/" for path in self._names)
        """The folders that a place lies in directly."""

    def name(self, path: str) -> str | None:
        """The name of the place that a canonical path is or lies in; None for a path elsewhere."""
        return next((name for place, name in self._names.items() if f"{path}/".startswith(f"{place}/")), None)

    def refuse(self, root: str) -> None:
        """Raises UsageError when the path is in one of the places."""
        name = self.name(root)
        if name is not None:
            raise UsageError(
                f"{path_text(Path(root))} belongs to Bigos's own {name}, which is never indexed.",
                fix="name the files and folders that hold your documents",
            )
