"""A sound that is open: how long it is, and its samples. It is decoded in the process of all documents."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docai.render import wire
from docai.render.document import Source, input_file
from docai.render.inputs import InputFile
from docai.types import Limits

_LOG = logging.getLogger(__name__)


class Track(Source):
    """The sound of a file, which may be a video. `seconds` is what the file says; 0 where it does not."""

    def __init__(self, file: InputFile, limits: Limits) -> None:
        super().__init__(file, None, limits, "audio")

    def samples(self, rate: int) -> NDArray[np.float32]:
        """All of it as one channel (n,), `rate` numbers a second, full scale being 1.

        Raises InputError where nothing can be decoded, LimitExceeded where it turns out to be too long.
        """
        request: dict[str, Any] = {"do": "samples", "index": 0, "rate": rate}
        header, parts = self._call(request, (), None, "its audio")
        for note in header["notes"]:
            _LOG.warning("%s: %s", self.name, note)
        return wire.unpack_array(header["array"], parts[0])


def open_track(
    source: str | Path | bytes | InputFile, *, limits: Limits | None = None, name: str | None = None
) -> Track:
    """Open a sound: a path, its bytes, or an `InputFile`.

    Raises InputError (missing, empty, corrupt, without sound), LimitExceeded or DependencyMissing.
    """
    return Track(input_file(source, name or "audio"), limits or Limits())
