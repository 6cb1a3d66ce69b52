"""From a checkpoint to a layout detector's network with its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from docai.checkpoint.backend import require_mlx
from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.config import Config, check_depth, sensible
from docai.checkpoint.load import load_into
from docai.layout.families import LayoutFamily, family_of

if TYPE_CHECKING:
    from docai.layout.network import Network
    from docai.layout.spec import DetectorSpec


def resolve(checkpoint: Checkpoint) -> tuple[LayoutFamily, DetectorSpec, Network]:
    """The family of a detector, what it is, and its network without weights.

    Raises DependencyMissing without MLX, CheckpointError for what is no detector that is supported.
    """
    require_mlx()  # before a module that imports it
    from docai.layout.network import Network

    family = family_of(checkpoint.config)
    with sensible(checkpoint):
        check_depth(checkpoint)
        spec = family.spec(Config(checkpoint.config))
        return family, spec, Network(spec)


def load(
    checkpoint: Checkpoint, *, dtype: str | None = None, on_progress: Callable[[int, int], None] | None = None
) -> tuple[LayoutFamily, DetectorSpec, Network]:
    """The same with its weights. Raises LimitExceeded, too."""
    family, spec, network = resolve(checkpoint)
    load_into(network, checkpoint, family.rules, spec, dtype=dtype, on_progress=on_progress)
    return family, spec, network


def load_network(checkpoint: Checkpoint, *, dtype: str | None = None) -> Network:
    """The network of a checkpoint, filled. Raises as `load`."""
    return load(checkpoint, dtype=dtype)[2]
