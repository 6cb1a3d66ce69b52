"""What can go wrong, as one tree of exceptions; each class carries the exit code of the command line.

DocaiError
├── UsageError          2   the request itself makes no sense
├── DependencyMissing   3   a model, an extra package or a program is not installed
│   └── CheckpointError  3   the files of a model are broken, or do not fit together
├── InputError          4   the document cannot be read
│   ├── PasswordError   5   it is locked, and no (or a wrong) password came with it
│   └── LimitExceeded   7   reading it would cross a limit
├── OutputError         6   the result cannot be written
└── InternalError      70   our own mistake

Every message says what was expected, what came and what to do, in one or two lines.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every docai command."""

    OK = 0
    PARTIAL = 1
    USAGE = 2
    DEPENDENCY = 3
    INPUT = 4
    PASSWORD = 5
    OUTPUT = 6
    LIMIT = 7
    INTERNAL = 70
    INTERRUPTED = 130


class DocaiError(Exception):
    """Base of all errors that a user can cause or mend."""

    exit_code: ExitCode = ExitCode.INTERNAL


class UsageError(DocaiError):
    """The request makes no sense: an unknown format, a page range that is none."""

    exit_code = ExitCode.USAGE


class DependencyMissing(DocaiError):
    """A model, an extra package or a program is not there; the message says how to get it."""

    exit_code = ExitCode.DEPENDENCY


class CheckpointError(DependencyMissing):
    """The files of a model are broken, or do not fit what its config says."""


class InputError(DocaiError):
    """The document cannot be read."""

    exit_code = ExitCode.INPUT


class PasswordError(InputError):
    """The document is locked, and no (or a wrong) password was given."""

    exit_code = ExitCode.PASSWORD


class LimitExceeded(InputError):
    """Reading on would cross a limit; the message names the limit and the option that raises it."""

    exit_code = ExitCode.LIMIT


class OutputError(DocaiError):
    """The result cannot be written."""

    exit_code = ExitCode.OUTPUT


class InternalError(DocaiError):
    """A mistake of docai itself."""

    exit_code = ExitCode.INTERNAL
