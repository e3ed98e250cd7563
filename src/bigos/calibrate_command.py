# SPDX-License-Identifier: GPL-2.0-only
"""`bigos calibrate`: compute the language means of the configured model.

They are part of the index's fingerprint, and a service may give slightly other vectors the next time; so means that are
there are kept unless new ones are asked for.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from bigos.arguments import EXIT_CODES, Parser, add_common
from bigos.errors import EmbedderError, ExitCode
from bigos.terminal import Terminal, read_config

if TYPE_CHECKING:
    from bigos.embedders.calibration import Calibration
    from bigos.library import Library
    from bigos.render_migrate import CalibrationResult

DESCRIPTION = "Compute the language means of the configured model, which let one language find the other."


def add_arguments(parser: Parser) -> None:
    """Describe the command's arguments."""
    parser.epilog = EXIT_CODES
    parser.add_argument(
        "--again",
        action="store_true",
        help="compute them though they are there; if they come out otherwise, the index has to be made anew",
    )
    add_common(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Calibrate as parsed arguments ask for; the exit code."""
    from bigos.library import open_library
    from bigos.render_migrate import calibrate_document, calibrate_text

    with open_library(read_config(args.config)) as library:
        result = calibrated(library, again=args.again)
    if args.json:
        terminal.document(calibrate_document(result))
    else:
        terminal.result(calibrate_text(result))
    return int(ExitCode.OK)


def calibrated(library: Library, *, again: bool) -> CalibrationResult:
    """The means that are there, or new ones when there are none, they are damaged, or `again` says so.

    Raises EmbedderError when the model or the calibration texts are missing, or it does not answer.
    """
    from bigos.render_migrate import CalibrationResult

    before = _existing(library)
    started = time.monotonic()
    means = before if before is not None and not again else library.calibrate()
    computed = means is not before
    return CalibrationResult(
        embedder=means.embedder_fingerprint,
        file=library.calibration_file,
        checksum=means.checksum,
        languages=sorted(means.passage_means),
        computed=computed,
        changed=means.checksum != before.checksum if computed and before is not None else None,
        seconds=time.monotonic() - started,
    )


def _existing(library: Library) -> Calibration | None:
    from bigos.embedders.calibration import load_calibration

    embedder, file = library.raw_embedder, library.calibration_file
    try:
        return load_calibration(file, embedder)
    except EmbedderError:  # missing, damaged, or of another model: to be computed
        return None
