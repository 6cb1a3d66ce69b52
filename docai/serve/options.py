"""The options of `docai serve`. Nothing here needs a library of the server."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docai.errors import UsageError
from docai.options import check, option
from docai.types import Limits

_LIMITS = Limits()
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(kw_only=True, slots=True)
class ServeOptions:
    """`docai serve`. `docai.serve.settings` changes some of them while it runs."""

    model: list[str] | None = option(
        None,
        "A model to offer: a folder, a repo id or a short name; may be repeated. Documents are read without any.",
        flags=("--model", "-m"),
        variable="DOCAI_SERVE_MODEL",
    )
    host: str = option("127.0.0.1", "Address to listen at; 0.0.0.0 is all of this machine's.")
    port: int = option(8080, "Port to listen at; 0 takes a free one.", least=0, most=65535)
    api_key: list[str] | None = option(
        None, "A key that clients have to send; may be repeated. What one key sends, another does not see.", secret=True
    )
    media_root: list[str] | None = option(
        None, "A folder whose files requests may name by their paths; may be repeated. Default: none."
    )
    detector: list[str] | None = option(
        None,
        "A layout detector to offer beside embedded, pp-doclayout-v3 and rt-detr-v2: a folder or a repo id that is in "
        "the cache; may be repeated.",
    )
    allow_host: list[str] | None = option(
        None,
        "A name under which requests without a key may reach this server, beside its own and its addresses; may be "
        "repeated. Web pages of that name may ask, too.",
    )
    offline: bool = option(False, "Never use the network: no addresses are fetched, no models downloaded.")
    dtype: str | None = option(
        None,
        "Type of weights that are not quantized. Default: float32 on a CPU, as stored on a GPU.",
        choices=("float32", "bfloat16", "float16"),
    )
    preload: bool = option(False, "Load the models at the start, as far as --max-models allows.")
    keep_alive: str = option("10m", "How long a model that nobody asks stays loaded: 90s, 10m, 2h; 0 is for ever.")
    max_models: int = option(1, "Most models in memory at once.", least=1)
    max_queue_depth: int = option(32, "Most requests that wait, for each model and for pages.", least=1, most=1000)
    max_images: int = option(16, "Most images of a request, pages of documents included.", least=1)
    vision_cache_size: int = option(20, "Images whose features are kept, for each model; 0 is none.", least=0)
    max_tokens: int | None = option(
        None, "Most tokens of an answer, where the request does not say it. Default: 1024.", least=1
    )
    thinking: Literal["auto", "on", "off"] = option(
        "auto",
        "Whether models that can think do so, where the request does not say it.",
        choices=("auto", "on", "off"),
    )
    thinking_budget: int | None = option(None, "Most tokens of thinking, where the request does not say it.", least=0)
    video_fps: float = option(2.0, "Frames a second of videos that are looked at.", least=0.001)
    video_max_frames: int = option(16, "Most frames of a video that a model is shown.", least=1)
    prefix_cache: int = option(256, "Megabytes for what was read of prompts, for each model; 0 is none.", least=0)
    prefix_disk: str | None = option(None, "A folder that keeps what was read of prompts beyond the process.")
    max_body: int = option(100 << 20, "Largest request, in bytes.", least=1024)
    max_bytes: int = option(100 << 20, "Largest file, in bytes.", least=1)
    max_pages: int = option(1000, "Most pages of a document.", least=1)
    max_pixels: int = option(
        _LIMITS.max_pixels, "Most pixels of a page: larger images are refused, PDF pages rendered smaller.", least=1
    )
    page_seconds: float = option(60.0, "Longest time that decoding a page may take.", least=0.1)
    max_audio_seconds: float = option(_LIMITS.max_audio_seconds, "Longest sound, in seconds.", least=0.1)
    fetch_seconds: float = option(30.0, "Longest time that fetching an address may take.", least=0.1)
    state: str | None = option(
        None, "Folder of jobs and uploaded files. Default: docai/serve-PORT in the user's folder for state."
    )
    max_stored: int = option(20 << 30, "Most bytes of uploaded files and of jobs' documents together.", least=1)
    keep_jobs: str = option("24h", "How long finished jobs and uploaded files are kept: 30m, 24h, 7d.")
    response_store: int = option(
        64, "Megabytes of memory for past responses, which previous_response_id goes on from; 0 is none.", least=0
    )
    keep_responses: str = option("1h", "How long a response is kept after it was used last: 30m, 1h.")
    log_format: Literal["text", "json"] = option(
        "text", "The log on standard error: lines for people, or a JSON object a line.", choices=("text", "json")
    )
    grace: float = option(10.0, "Seconds that running answers get to end when the server is stopped.", least=0)

    def __post_init__(self) -> None:
        check(self)
        _ = self.keep_alive_s, self.keep_jobs_s, self.keep_responses_s  # says at once what is wrong with them
        if "" in (self.api_key or ()):
            raise UsageError("api_key: expected a key; got nothing")
        if not all(key.isascii() and key.isprintable() and " " not in key for key in self.api_key or ()):
            raise UsageError("api_key: expected printable ASCII without spaces: headers hold nothing else")
        for name in self.allow_host or ():
            if not re.fullmatch(r"[a-z0-9_.-]+", name):
                raise UsageError(f"allow_host: expected a name in small letters, as in docs.example.org; got {name!r}")

    @property
    def limits(self) -> Limits:
        """What a document may cost."""
        return Limits(
            self.max_bytes,
            self.max_pages,
            self.max_pixels,
            self.page_seconds,
            max_audio_seconds=self.max_audio_seconds,
        )

    @property
    def keep_alive_s(self) -> float:
        return seconds_of(self.keep_alive, "keep_alive")

    @property
    def keep_jobs_s(self) -> float:
        return seconds_of(self.keep_jobs, "keep_jobs")

    @property
    def keep_responses_s(self) -> float:
        return seconds_of(self.keep_responses, "keep_responses")

    @property
    def local(self) -> bool:
        """Whether only programs of this machine reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders of `media_root`, symlinks resolved. Raises UsageError for what is no folder."""
        named = [part for text in self.media_root or () for part in text.split(",") if part]
        for name in named:
            if not Path(name).is_dir():
                raise UsageError(f"media_root: {name} is no folder")
        return tuple(Path(name).resolve() for name in named)

    @property
    def folder(self) -> Path:
        """Where jobs and files are."""
        if self.state is not None:
            return Path(self.state)
        home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        return Path(home, "docai", f"serve-{self.port}")


@dataclass(frozen=True, kw_only=True, slots=True)
class McpOptions:
    """`docai mcp`."""

    model: str | None = option(
        None,
        "The model that captions, and looks for things: a folder, a repo id or a short name.",
        flags=("--model", "-m"),
        variable="DOCAI_MCP_MODEL",
    )
    root: str | None = option(None, "A folder outside of which no file is read. Default: all that the user may read.")
    offline: bool = option(False, "Never use the network: only models that are in the cache.")

    def __post_init__(self) -> None:
        check(self)


def seconds_of(text: str, name: str) -> float:
    """`90s`, `10m`, `2h`, `1d` or a number of seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", text.strip())
    if match is None:
        raise UsageError(f"{name}: expected a time such as 90s, 10m or 2h; got {text!r}")
    return float(match[1]) * _UNITS[match[2]]
