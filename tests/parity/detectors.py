"""Tiny layout detectors: what their oracle is built from, and `python tests/parity/detectors.py [NAME...]`, which asks.

As `make.py` does for models that write: a case keeps the oracle's config, the names and shapes of its tensors and its
outputs; weights come from `weights.py`. Needs the `oracle` extra to make cases; the suite needs only what is in
`cases/detectors`. Pages are not square, and two are looked at at once.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CASES = HERE / "cases" / "detectors"
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.weights import noise, tensors  # noqa: E402

NEAR_TIE = 2e-5  # scores of pixels closer than this are no test of which become queries: take another seed
GAIN = 1.6  # of convolutions: without it norms and activations leave little of a page behind so many of them
CHANNELS, EVERY = 4, 3  # of the encoder's maps, and pixels of masks: what a case keeps of them
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """A case. `oracle`: a class of transformers. `page`: pages, height, width. `port`: mlx-vlm's module for it."""

    name: str
    oracle: str
    config: Mapping[str, Any]
    page: tuple[int, int, int] = (2, 96, 160)
    port: str = ""
    seed: int = 1
    renames: Mapping[str, str] = field(default_factory=dict)


SMALL = {
    "encoder_in_channels": [16, 24, 32], "encoder_hidden_dim": 32, "encoder_ffn_dim": 48, "encoder_attention_heads": 2,
    "d_model": 32, "decoder_in_channels": [32, 32, 32], "decoder_ffn_dim": 48, "decoder_attention_heads": 2,
    "decoder_layers": 3, "num_queries": 10, "decoder_n_points": 2, "num_denoising": 0, "num_labels": 5,
}  # fmt: skip
RESNET = {
    "model_type": "rt_detr_resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1],
    "layer_type": "basic", "out_indices": [2, 3, 4],
}  # fmt: skip
DEEP = {**RESNET, "hidden_sizes": [16, 16, 24, 32], "layer_type": "bottleneck", "depths": [1, 2, 1, 1]}
HGNET = {
    "model_type": "hgnet_v2", "stem_channels": [3, 8, 16], "stage_in_channels": [16, 16, 24, 32],
    "stage_mid_channels": [8, 8, 8, 8], "stage_out_channels": [16, 24, 32, 40], "stage_num_blocks": [1, 1, 2, 1],
    "stage_downsample": [False, True, True, True], "stage_light_block": [False, False, True, True],
    "stage_kernel_size": [3, 3, 5, 5], "stage_numb_of_layers": [2, 2, 2, 2],
    "out_features": ["stage1", "stage2", "stage3", "stage4"], "hidden_sizes": [16, 24, 32, 40],
}  # fmt: skip
LAYOUT = {
    **SMALL, "backbone_config": HGNET, "encoder_in_channels": [24, 32, 40], "mask_feature_channels": [16, 12],
    "x4_feat_dim": 16, "num_prototypes": 8, "global_pointer_head_size": 8,
}  # fmt: skip
# How the classes of transformers call modules that the files have under older names.
AT_RUN_TIME = {
    r"out_proj": "o_proj", r"(layers\.\d+)\.(fc[12])": r"\1.mlp.\2", r"encoder\.encoder\.(\d+)": r"encoder.aifi.\1",
}  # fmt: skip

RECIPES = (
    Recipe("rt_detr_v2", "RTDetrV2ForObjectDetection", {**SMALL, "backbone_config": RESNET}, port="rt_detr_v2"),
    Recipe(
        "rt_detr_v2-untied",
        "RTDetrV2ForObjectDetection",
        {**SMALL, "backbone_config": DEEP, "tie_word_embeddings": False, "decoder_offset_scale": 0.4},
        port="rt_detr_v2",
    ),
    Recipe(
        "rt_detr_v2-discrete",
        "RTDetrV2ForObjectDetection",
        {
            **SMALL, "backbone_config": {**DEEP, "downsample_in_bottleneck": True}, "decoder_method": "discrete",
            "hidden_expansion": 0.5, "encoder_layers": 2, "num_denoising": 4, "num_feature_levels": 4,
            "decoder_n_levels": 4,
        },
        renames=AT_RUN_TIME,
    ),
    Recipe("rt_detr", "RTDetrForObjectDetection", {**SMALL, "backbone_config": RESNET}),
    Recipe("pp_doclayout_v3", "PPDocLayoutV3ForObjectDetection", LAYOUT, port="pp_doclayout_v3", renames=AT_RUN_TIME),
    Recipe(
        "pp_doclayout_v3-untied",
        "PPDocLayoutV3ForObjectDetection",
        {**LAYOUT, "tie_word_embeddings": False, "mask_enhanced": False, "num_denoising": 4},
    ),
)  # fmt: skip


def pages(shape: Iterable[int], seed: int) -> Array:
    """Pages of a case, (B, H, W, 3) in 0..1; the test makes the same."""
    return np.clip(0.5 + 0.25 * noise("pages", (*shape, 3), seed), 0, 1)


def weights(shapes: Mapping[str, list[int]], seed: int) -> dict[str, Array]:
    """The tensors of a case. Counters of batches are whole numbers; a buffer says 1 / points, which is a half here."""
    made = tensors({name: shape for name, shape in shapes.items() if shape}, seed)
    made |= {name: GAIN * value for name, value in made.items() if value.ndim == 4}
    made |= {name: np.full_like(value, 0.5) for name, value in made.items() if name.endswith("n_points_scale")}
    return {name: made[name] if shape else np.array(7) for name, shape in shapes.items()}


def renamed(name: str, renames: Mapping[str, str]) -> str:
    for pattern, new in renames.items():
        name = re.sub(pattern, new, name)
    return name


def ask(recipe: Recipe) -> tuple[dict[str, Any], dict[str, list[int]], dict[str, Array]]:
    """(config as saved, shapes of the tensors as saved, outputs)"""
    import torch
    import transformers
    from safetensors import safe_open
    from safetensors.numpy import save_file

    kind = getattr(transformers, recipe.oracle)
    with tempfile.TemporaryDirectory() as folder:
        kind(kind.config_class(**recipe.config)).float().save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        with safe_open(file, "np") as opened:
            shapes = {key: list(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118 - no dict
        save_file(weights(shapes, recipe.seed), file, {"format": "pt"})
        model, said = kind.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
        if any(said.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            raise SystemExit(f"{recipe.name}: the oracle did not take its own tensors: {said}")
        saved = json.loads((Path(folder) / "config.json").read_text())
    seen: dict[str, Any] = {}
    model.eval().model.encoder.register_forward_hook(lambda _m, _i, out: seen.update(maps=out.last_hidden_state))
    with torch.no_grad():
        found = model(torch.from_numpy(np.ascontiguousarray(np.moveaxis(pages(recipe.page, recipe.seed), -1, 1))))
    check_ties(recipe, found.enc_outputs_class.max(-1).values.numpy())
    out = {"logits": found.logits, "boxes": found.pred_boxes}
    if "order_logits" in found:
        out |= {"order": found.order_logits, "masks": found.out_masks[..., ::EVERY, ::EVERY]}
    out |= {f"map_{level}": x[:, :CHANNELS].permute(0, 2, 3, 1) for level, x in enumerate(seen["maps"])}
    return saved, shapes, {key: value.numpy() for key, value in out.items()}


def check_ties(recipe: Recipe, scores: Array) -> None:
    """Stop where it is left to chance which pixels become queries, and in what order."""
    best = np.sort(scores, axis=1)[:, : -recipe.config["num_queries"] - 2 : -1]
    if (margin := float((best[:, :-1] - best[:, 1:]).min())) < NEAR_TIE:
        raise SystemExit(f"{recipe.name}: the scores of two pixels are {margin:.1e} apart; choose another seed")


def port_names(recipe: Recipe, names: Iterable[str]) -> list[str | None]:
    """The names that mlx-vlm's conversion gives tensors; None for those that it drops."""
    if recipe.port == "rt_detr_v2":
        from mlx_vlm.models.rt_detr_v2.convert import rename, should_drop
    else:
        from mlx_vlm.models.pp_doclayout_v3.pp_doclayout_v3 import rename_key as rename
        from mlx_vlm.models.pp_doclayout_v3.pp_doclayout_v3 import should_drop
    return [None if should_drop(name) else rename(name) for name in names]


def as_text(case: Mapping[str, Any]) -> str:
    """JSON with a line for each field and tensor."""
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(shape)}" for name, shape in case["tensors"].items())
    fields = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items() if key != "tensors"]
    return "{\n" + ",\n".join([*fields, f' "tensors": {{\n{rows}\n }}']) + "\n}\n"


def make(recipe: Recipe) -> None:
    """Write one case."""
    import transformers

    config, shapes, out = ask(recipe)
    case = {
        "oracle": f"transformers {transformers.__version__}, {recipe.oracle}",
        "seed": recipe.seed,
        "pages": recipe.page,
        "config": config,
        "tensors": shapes,
        "mlx": port_names(recipe, shapes) if recipe.port else [],
        "renames": recipe.renames,
    }
    CASES.mkdir(parents=True, exist_ok=True)
    (CASES / f"{recipe.name}.json").write_text(as_text(case))
    np.savez_compressed(CASES / f"{recipe.name}.npz", **out)
    print(f"{recipe.name}: {len(shapes)} tensors")  # noqa: T201


if __name__ == "__main__":
    wanted = set(sys.argv[1:]) or {recipe.name for recipe in RECIPES}
    for recipe in RECIPES:
        if recipe.name in wanted:
            make(recipe)
