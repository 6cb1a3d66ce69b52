"""Models from the Hugging Face hub: which files of a repo are needed, downloads, and what goes wrong with them.

Downloads lie in the cache of huggingface_hub (HF_HOME, HF_HUB_CACHE) and are compared with the hashes that the hub
names. A lost connection is taken up where it broke; after an interrupted run, files that are whole are not fetched
again. Only data is fetched: no code of a repo, and no pickled weights.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docai.checkpoint.backend import cache_folder, in_bytes
from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint
from docai.checkpoint.files import weight_files
from docai.checkpoint.recipes import RECIPES
from docai.errors import CheckpointError, DocaiError, OutputError, UsageError

_REPO = re.compile(r"[\w.-]+/[\w.-]+(?::[\w.-]+)?")
BESIDE = (".json", ".jinja", ".txt", ".model", ".tiktoken")  # config, tokenizer, template, processor
# GGUF files, best first: those whose blocks stay quantized, then those that are or become half precision.
_GGUF_KINDS = ("Q8_0", "Q5_K_M", "Q4_K_M", "Q4_K_S", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "BF16", "F16", "Q6_K")
_GIT_SHA1, _SHA256 = 40, 64  # hex digits: the hub names small files by the first, large ones by the second


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A file at the top of a repo."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model is: a folder or file here, or a repo of the hub and, for GGUF, which of its files."""

    path: Path | None = None
    repo: str = ""
    part: str = ""


def open_checkpoint(
    name: str, *, revision: str | None = None, offline: bool = False, quiet: bool = False
) -> Checkpoint:
    """The checkpoint of a local path, a repo id or a short name. What is not in the cache yet is downloaded.

    Raises CheckpointError with what is missing or broken, UsageError for a name that is none.
    """
    place = locate(name)
    if place.path is not None:
        return read_checkpoint(place.path)
    folder = cached(place, revision)
    if folder is None:
        folder = pull(name, revision=revision, offline=offline, quiet=quiet)
    return read_checkpoint(folder, name)


def locate(name: str) -> Place:
    """What a name means. Raises UsageError or CheckpointError."""
    with contextlib.suppress(OSError, RuntimeError):  # too long for a path; a home of nobody
        path = Path(name).expanduser()
        if path.exists():
            return Place(path)
    if name in RECIPES:
        repo, _, part = RECIPES[name].repo.partition(":")
        return Place(repo=repo, part=part)
    if _REPO.fullmatch(name) and not name.startswith("."):
        repo, _, part = name.partition(":")
        return Place(repo=repo, part=part)
    if "/" in name or name.startswith((".", "~")):
        raise CheckpointError(f"{name}: no such folder or file, and no repo id, which has the form org/name")
    near = ", ".join(difflib.get_close_matches(name, RECIPES, n=3, cutoff=0.5))
    names = f"such as {near}" if near else "that `docai models list` has"
    raise UsageError(f"model {name!r}: expected a folder, a repo id (org/name) or a short name {names}")


def is_offline(offline: bool = False) -> bool:
    """Whether the network must not be used: asked for, or by HF_HUB_OFFLINE."""
    from huggingface_hub import constants

    return offline or constants.HF_HUB_OFFLINE


def cached(place: Place, revision: str | None = None) -> Path | None:
    """The snapshot of a repo in the cache, if all of it is there that a model needs."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(place.repo, revision=revision, local_files_only=True, allow_patterns=["config.json"])
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise UsageError(f"model {place.repo!r}: {error}") from error
    return _whole(Path(folder), place.part)


def _whole(folder: Path, part: str) -> Path | None:
    """A snapshot, or a GGUF file in it, where its weights are all there."""
    ggufs = [RepoFile(p.name, 0) for p in folder.glob("*.gguf")]
    if ggufs and (part or not (folder / "config.json").is_file()):
        with contextlib.suppress(CheckpointError):
            return folder / _gguf(ggufs, part).name
        return None
    try:
        weight_files(folder)
    except CheckpointError:
        return None
    return folder if (folder / "config.json").is_file() else None


def pull(name: str, *, revision: str | None = None, offline: bool = False, quiet: bool = False) -> Path:
    """Get what is missing of a repo, check its hashes, and return its folder (or its GGUF file).

    Raises CheckpointError for everything that can go wrong, with what to do; OutputError where the disk is full.
    """
    place = locate(name)
    if place.path is not None:
        raise UsageError(f"{name} is a folder or file here; there is nothing to pull")
    if is_offline(offline):
        folder = cached(place, revision)
        if folder is None:
            raise CheckpointError(
                f"{place.repo} is not in the cache ({cache_folder()}), or not all of it, and the network is off "
                f"(--offline, HF_HUB_OFFLINE): run docai models pull {name} once with a network"
            )
        return folder
    with _said_plainly(place.repo, revision), _bars(quiet):
        files = needed_files(_listed(place.repo, revision), place)
        return _fetched(place, revision, files)


def _listed(repo: str, revision: str | None) -> list[RepoFile]:
    """The files at the top of a repo."""
    from huggingface_hub import HfApi

    info = HfApi(endpoint=_endpoint()).model_info(repo, revision=revision, files_metadata=True)
    return [RepoFile(s.rfilename, s.size or 0) for s in info.siblings or () if "/" not in s.rfilename]


def needed_files(files: Sequence[RepoFile], place: Place) -> list[RepoFile]:
    """The files of a repo that a model is made of. Raises CheckpointError where it has no weights to load."""
    beside = [f for f in files if f.name.endswith(BESIDE)]
    weights = [f for f in files if f.name.endswith(".safetensors")]
    ggufs = [f for f in files if f.name.endswith(".gguf")]
    if place.part or (ggufs and not weights):
        return [_gguf(ggufs, place.part), *beside]
    if not weights:
        pickles = [f.name for f in files if f.name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
        why = f"only pickles ({pickles[0]}), which can run code and are never loaded" if pickles else "none"
        raise CheckpointError(
            f"{place.repo}: expected weights as safetensors or GGUF, found {why}; look for a repo that has them, "
            "or convert the weights with their own library (save_pretrained)"
        )
    # Mistral's repos hold the same weights a second time in a layout of their own
    chosen = [f for f in weights if not f.name.startswith("consolidated")] or weights
    return [*chosen, *beside]


def _gguf(files: Sequence[RepoFile], part: str) -> RepoFile:
    """The GGUF file that is asked for, or the best that MLX reads."""
    if part:
        chosen = [f for f in files if f.name == part] or [f for f in files if part.lower() in f.name.lower()]
    else:
        words = {f.name: re.split(r"[-.]", f.name.upper()) for f in files}
        chosen = [f for kind in _GGUF_KINDS for f in files if kind in words[f.name]]
    if not chosen:
        names = ", ".join(f.name for f in files) or "none"
        raise CheckpointError(f"expected a GGUF file of {part or ', '.join(_GGUF_KINDS)}; the repo has {names}")
    return chosen[0]


def _fetched(place: Place, revision: str | None, files: Sequence[RepoFile]) -> Path:
    from huggingface_hub import snapshot_download

    blobs = cache_folder() / f"models--{place.repo.replace('/', '--')}" / "blobs"
    before = {blob.name for blob in blobs.iterdir()} if blobs.is_dir() else set()
    _check_disk(files, before)
    folder = Path(
        snapshot_download(
            place.repo,
            revision=revision,
            allow_patterns=[glob.escape(f.name) for f in files],
            endpoint=_endpoint(),
        )
    )
    for file in files:
        path = folder / file.name
        if hash_name(path) not in before:
            _check_new(path, place.repo)
    return folder / files[0].name if files[0].name.endswith(".gguf") else folder


def _check_disk(files: Sequence[RepoFile], before: set[str]) -> None:
    folder = next(p for p in (cache_folder(), *cache_folder().parents) if p.exists())
    free = shutil.disk_usage(folder).free
    size = sum(f.size for f in files)
    if not before and size > free:
        raise OutputError(
            f"the model takes {in_bytes(size)}, but {in_bytes(free)} are free in {folder}; free some, or set HF_HOME"
        )


def _check_new(path: Path, repo: str) -> None:
    """Compare a downloaded file with its hash. One that differs is removed."""
    expected = hash_name(path)
    if expected is None or hash_of(path, len(expected)) == expected:
        return
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    raise CheckpointError(
        f"{repo}: {path.name} is not what the hub says (its hash should be {expected[:12]}...); "
        "it was removed: pull again"
    )


def hash_name(path: Path) -> str | None:
    """The hash that the hub gave a file of the cache: the name of the blob that its snapshot links to."""
    if not path.is_symlink():
        return None
    name = path.readlink().name
    known = len(name) in (_GIT_SHA1, _SHA256) and not set(name) - set("0123456789abcdef")
    return name if known else None


def hash_of(path: Path, digits: int = _SHA256) -> str:
    """The SHA-256 of a file or, with 40 digits, the SHA-1 that git names it by."""
    with path.open("rb") as file:
        if digits == _SHA256:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
        while chunk := file.read(1 << 20):
            digest.update(chunk)
        return digest.hexdigest()


def _endpoint() -> str:
    from huggingface_hub import constants

    return os.environ.get("HF_ENDPOINT") or constants.ENDPOINT


@contextlib.contextmanager
def _bars(quiet: bool) -> Iterator[None]:
    """Progress bars, on a terminal; none where it should be quiet."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    with disable_progress_bars() if quiet or not sys.stderr.isatty() else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _said_plainly(repo: str, revision: str | None) -> Iterator[None]:
    """What goes wrong within, as a CheckpointError that says what to do."""
    from huggingface_hub import errors
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # whichever HTTP library it has

    try:
        yield
    except DocaiError:
        raise
    except errors.GatedRepoError as error:
        raise CheckpointError(
            f"{repo} is gated: accept its terms at {_endpoint()}/{repo}, then set HF_TOKEN to a token of yours"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise CheckpointError(
            f"{repo}: no such model on {_endpoint()}, or it is private and HF_TOKEN does not open it"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise CheckpointError(f"{repo} has no revision {revision!r}") from error
    except errors.HFValidationError as error:
        raise UsageError(f"model {repo!r}: {error}") from error
    except (HTTPError, errors.LocalEntryNotFoundError, ConnectionError) as error:
        raise CheckpointError(
            f"{repo}: {_endpoint()} cannot be reached, or broke off ({_first_line(error)}); run it again to go on"
        ) from error
    except OSError as error:
        if error.errno is not None:
            raise OutputError(f"cannot write to {cache_folder()}: {error.strerror or error}") from error
        raise CheckpointError(f"{repo}: the download failed ({_first_line(error)}); run it again to go on") from error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:200]
