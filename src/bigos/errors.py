# SPDX-License-Identifier: GPL-2.0-only
"""Every failure that a user can cause or cure: one sentence, one command that fixes it, one exit code.

BigosError
├── UsageError            2   a flag or an argument is wrong
├── ConfigError           2   the configuration is wrong
├── MissingDependency     2   an optional tool or package is not installed
├── EmbedderError         4   the model is missing, damaged or does not answer
├── StoreError            4   the store cannot be opened, read or written
│   ├── StoreLocked       4   another process held it longer than we wait
│   └── FingerprintMismatch 5 the store was made by another model or other windows
├── WorkersUnavailable    4   no process that reads files stays alive
├── Interrupted         130   the user asked to stop
└── DocumentError             one file failed; it is recorded and the run goes on
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes, as the README documents them."""

    OK = 0
    NOTHING_FOUND = 1
    USAGE = 2
    SOME_FILES_FAILED = 3
    UNAVAILABLE = 4
    FINGERPRINT_MISMATCH = 5
    BUG = 70
    INTERRUPTED = 130


class BigosError(Exception):
    """A failure told in one sentence (`message`) with one command or act that cures it (`fix`)."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message, fix)
        self.message = message
        self.fix = fix

    def __reduce__(self) -> tuple[object, ...]:
        # Crosses process borders (worker pool): the default reduce would drop the keyword.
        return _rebuild, (type(self), self.message, self.fix)

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.fix}" if self.fix else self.message


def _rebuild(kind: type[BigosError], message: str, fix: str) -> BigosError:
    error = kind.__new__(kind)
    BigosError.__init__(error, message, fix=fix)
    return error


class UsageError(BigosError):
    """A command was given something it cannot work with."""

    exit_code = ExitCode.USAGE


class ConfigError(BigosError):
    """The configuration file, a BIGOS_* variable or a flag has a value that cannot be right."""

    exit_code = ExitCode.USAGE


class MissingDependency(BigosError):
    """A package or program that this action needs is not installed."""

    exit_code = ExitCode.USAGE


class EmbedderError(BigosError):
    """The embedding model is missing, damaged, gave an impossible vector, or does not answer."""

    exit_code = ExitCode.UNAVAILABLE


class StoreError(BigosError):
    """The store cannot be opened, read or written."""

    exit_code = ExitCode.UNAVAILABLE


class StoreLocked(StoreError):
    """Another process has had the store open for longer than we were willing to wait."""


class FingerprintMismatch(StoreError):
    """The collection was made with another model, dimension, window or schema."""

    exit_code = ExitCode.FINGERPRINT_MISMATCH


class WorkersUnavailable(BigosError):
    """The processes that load files are killed, one after the other, whatever file they are given."""

    exit_code = ExitCode.UNAVAILABLE


class Interrupted(BigosError):
    """The user asked to stop; what was finished is kept."""

    exit_code = ExitCode.INTERRUPTED


class DocumentError(BigosError):
    """One file cannot become a document.

    `reason` is a short stable word group ("binary", "too large", "unreadable") under which reports count files;
    `message` is the sentence for this file. `skipped` tells a file that was rightly left out (a binary, an unknown
    format) from one that should have worked and did not.
    """

    def __init__(self, reason: str, message: str = "", *, fix: str = "", skipped: bool = False) -> None:
        super().__init__(message or reason, fix=fix)
        self.reason = reason
        self.skipped = skipped

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_document_error, (self.reason, self.message, self.fix, self.skipped)


def _rebuild_document_error(reason: str, message: str, fix: str, skipped: bool) -> DocumentError:
    return DocumentError(reason, message, fix=fix, skipped=skipped)
