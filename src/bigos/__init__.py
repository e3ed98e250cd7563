# SPDX-License-Identifier: GPL-2.0-only
"""Bigos: a local retrieval index over documents and source code, in Polish and English."""

__version__ = "0.1.0"
