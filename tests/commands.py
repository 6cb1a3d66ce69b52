"""The command line, run in the process of the tests."""

from __future__ import annotations

import pytest

from docai.cli.app import main


def run(*words: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)
