"""`docai.load`: a model for Python. MLX is brought in here, so that naming it costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from docai.tasks.options import ModelOptions

if TYPE_CHECKING:
    from docai.vlm.model import Model


def load(
    model: str,
    *,
    dtype: str | None = None,
    revision: str | None = None,
    offline: bool = False,
    feature_cache: int = 20,
    prefix_cache: int = 1024,
    prefix_disk: str | Path | None = None,
    rows: int | None = None,
    steady: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> Model:
    """A model of a folder, a repo id or a short name, ready to answer: `.generate(prompt, images)`, `.stream(...)`.

    `dtype`: float32, bfloat16 or float16 for weights that are not quantized. `feature_cache`: images whose features are
    kept; `prefix_cache`: megabytes for what was read of prompts, 0 is none; `prefix_disk`: a folder that keeps it
    beyond the process, up to 20 GB a model. `rows`: requests that run at once; `steady`: whatever runs beside it, a
    request gets the same to the bit (see docs/engine.md). `on_progress` is told bytes loaded and in all.

    Raises DependencyMissing where MLX or the model is not there, LimitExceeded where it does not fit into memory.
    """
    from docai.checkpoint.backend import require_mlx

    require_mlx()
    from docai.vlm.model import open_model
    from docai.vlm.scheduler import EngineLimits

    return open_model(
        str(model),
        dtype=dtype,
        revision=revision,
        offline=offline,
        feature_cache=feature_cache,
        prefix_cache=prefix_cache,
        prefix_disk=prefix_disk,
        limits=EngineLimits(rows=rows, steady=steady),
        on_progress=on_progress,
    )


def load_chosen(options: ModelOptions, on_progress: Callable[[int, int], None] | None = None) -> Model:
    """The model that options name."""
    return load(
        options.chosen,
        dtype=options.dtype,
        revision=options.revision,
        offline=options.offline,
        feature_cache=options.feature_cache,
        prefix_cache=options.prefix_cache,
        prefix_disk=options.prefix_disk,
        on_progress=on_progress,
    )
