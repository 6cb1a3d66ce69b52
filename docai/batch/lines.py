"""JSON lines between processes and in the journal.

Names of files may hold bytes that are no UTF-8. Python has them as lone surrogates (PEP 383), which UTF-8 cannot hold;
in a line they are escaped, and so come out as they went in.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def line_of(value: object) -> bytes:
    """Plain values as one line of JSON, without its end."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value).encode("ascii")


def value_of(line: bytes) -> Any:
    """What `line_of` was given. Raises ValueError."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)
