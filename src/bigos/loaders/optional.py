# SPDX-License-Identifier: GPL-2.0-only
"""Parsing packages, imported when a file needs one; a missing one is a sentence and the command that brings it."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from bigos.errors import DocumentError


def require(module: str, package: str) -> Any:
    """Import a module.

    Args:
        module: its full name.
        package: what to ask pip for.

    Raises:
        DocumentError: "needs PACKAGE" when it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a package imports itself
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise DocumentError(
            f"needs {package}",
            f"the Python package {package} is not installed",
            fix=f"pip install {package}",
        ) from error
