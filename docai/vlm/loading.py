"""From a checkpoint to a network with its weights: family, spec, modules, numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from docai.checkpoint.backend import on_gpu
from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint
from docai.checkpoint.config import Config, check_depth, sensible
from docai.checkpoint.load import has_part, load_into
from docai.errors import CheckpointError
from docai.nn.quantized import suit_cpu
from docai.vlm.encdec import EncDecNetwork, EncDecSpec
from docai.vlm.families import Family, family_of
from docai.vlm.network import Network
from docai.vlm.spec import ModelSpec

_LOG = logging.getLogger(__name__)

AnySpec: TypeAlias = ModelSpec | EncDecSpec
AnyNetwork: TypeAlias = Network | EncDecNetwork


def resolve(checkpoint: Checkpoint) -> tuple[Family, AnySpec]:
    """The family of a checkpoint and what it is.

    A family that has text-only checkpoints takes one without vision tensors as such; for another it is an error that
    names the tower. One without those for sound hears nothing. Raises CheckpointError.
    """
    with sensible(checkpoint):
        check_depth(checkpoint)
        return _resolved(checkpoint)


def _resolved(checkpoint: Checkpoint) -> tuple[Family, AnySpec]:
    family, config = family_of(checkpoint.config), checkpoint.config
    if family.by_names is not None:
        config = dict(family.by_names(config, checkpoint.tensors))
    spec = family.spec(Config(config))
    left_out = []
    # those of early fusion have a connector only
    sees = "vision." if spec.vision is not None else "connector." if family.text_only and spec.connector else ""
    if sees and not has_part(checkpoint, family.rules, spec, sees):
        if not family.text_only:
            raise CheckpointError(
                f"{checkpoint.name}: expected the weights of a vision tower, as its config describes one; found none"
            )
        left_out.append("vision_config")
    hears = isinstance(spec, ModelSpec) and spec.hearing is not None
    if hears and not has_part(checkpoint, family.rules, spec, "hearing."):
        left_out.append("audio_config")
    return family, family.spec(Config({**config, **dict.fromkeys(left_out)})) if left_out else spec


def build_network(spec: AnySpec) -> AnyNetwork:
    """The network that `spec` describes, without its weights."""
    return EncDecNetwork(spec) if isinstance(spec, EncDecSpec) else Network(spec)


def load_network(
    checkpoint: Checkpoint | Path, *, dtype: str | None = None, on_progress: Callable[[int, int], None] | None = None
) -> AnyNetwork:
    """The network of a checkpoint, or of a folder, filled. Raises CheckpointError or LimitExceeded."""
    if isinstance(checkpoint, Path):
        checkpoint = read_checkpoint(checkpoint)
    family, spec = resolve(checkpoint)
    names = checkpoint.name, str(checkpoint.config.get("_name_or_path"))
    remarks = (said for part, said in family.remarks.items() if any(part in name for name in names))
    for notice in (*spec.notices, *remarks):
        _LOG.warning("%s: %s", checkpoint.name, notice)
    with sensible(checkpoint):
        network = build_network(spec)
    load_into(network, checkpoint, family.rules, spec, dtype=dtype, on_progress=on_progress)
    if not on_gpu():
        suit_cpu(network)
    return network
