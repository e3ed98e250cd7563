# SPDX-License-Identifier: GPL-2.0-only
"""What is known of source code: which names are code, in what language, and where definitions begin and end."""
