"""What reading videos and reading sound share of PyAV (FFmpeg). Used in the decoding process."""

from __future__ import annotations

from typing import Any

from docai.errors import DependencyMissing

# Containers, by FFmpeg's names: none that refers to other files (playlists, image sequences).
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "mpegts", "mpeg", "flv", "ogg", "asf", "mxf", "ivf",
    "gif", "apng", "yuv4mpegpipe",
    "mp3", "wav", "w64", "flac", "aac", "aiff", "caf", "au", "amr", "ac3", "wv",
)  # fmt: skip
OPTIONS = {"format_whitelist": ",".join(_FORMATS), "protocol_whitelist": "file"}


def pyav(what: str) -> Any:
    """PyAV. Raises DependencyMissing where it is not installed, which `what` needs."""
    try:
        import av
        import av.error
    except ImportError:
        raise DependencyMissing(f"{what} need PyAV, which is not installed: pip install 'docai[video]'") from None
    return av


def said(error: Exception) -> str:
    """What FFmpeg says of an error."""
    return str(getattr(error, "strerror", None) or error)
