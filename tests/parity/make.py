"""Ask the oracles: `python tests/parity/make.py [NAME...]` writes the cases of the recipes with these names, or all.

Needs the `oracle` extra (torch, transformers, mlx-vlm, in the versions that it pins); the suite does not. A case keeps
the oracle's config, the names and shapes of its tensors and its outputs. Its weights come from `weights.py`, here as in
the test; the oracle loads them from a file, as it would a published checkpoint.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.feeds import FEEDS  # noqa: E402
from tests.parity.mends import MENDED  # noqa: E402
from tests.parity.recipes import RECIPES  # noqa: E402
from tests.parity.recipes.kinds import Recipe, Sound, Variant  # noqa: E402
from tests.parity.weights import tensors  # noqa: E402

STEPS = 8  # tokens of the greedy answer
NEAR_TIE = 2e-3  # two best logits closer than this are no test: take another seed
Outputs = dict[str, np.ndarray]


def ask_transformers(recipe: Recipe, name: str) -> tuple[dict[str, Any], dict[str, list[int]], Outputs]:
    """(config as saved, shapes of the tensors as saved, outputs) of a class of transformers."""
    import torch
    import transformers
    from safetensors import safe_open
    from safetensors.numpy import save_file

    kind = getattr(transformers, name)
    with tempfile.TemporaryDirectory() as folder:
        config = kind.config_class(**recipe.config)
        kind(config).float().save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        with safe_open(file, "np") as opened:
            shapes = {key: list(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118 - no dict
        save_file(tensors(shapes, recipe.seed, norm_offset=recipe.norm_offset), file, {"format": "pt"})
        model, said = kind.from_pretrained(
            folder, output_loading_info=True, attn_implementation="eager", dtype=torch.float32
        )
        if any(said.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            raise SystemExit(f"{recipe.name}: the oracle did not take its own tensors: {said}")
        saved = json.loads((Path(folder) / "config.json").read_text())
    model.eval()
    MENDED.get(name, lambda _: None)(model)
    given = {k: torch.from_numpy(v) for k, v in FEEDS[recipe.feed](recipe).items()}
    ids = torch.tensor([recipe.tokens])
    with torch.no_grad():
        out: Outputs = {"logits": model(input_ids=ids, **given).logits[0].numpy()}
        if recipe.images and "pixel_values_videos" not in given:
            out |= features(recipe, model, given)
        answer = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), **given, max_new_tokens=STEPS, min_new_tokens=STEPS,
            do_sample=False, output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
    out["tokens"] = answer.sequences[0, len(recipe.tokens) :].numpy().astype(np.int32)
    out["step_logits"] = torch.cat(answer.logits).numpy()
    return saved, shapes, out


def features(recipe: Recipe, model: Any, given: dict[str, Any]) -> Outputs:
    """The rows that the images give, one after another, and those of DeepStack."""
    if "input_features" in given:
        return {"features": np.concatenate(list(seen_and_heard(recipe, model, given)))}
    found = model.get_image_features(**{k: v for k, v in given.items() if not k.endswith("token_type_ids")})
    rows = getattr(found, "pooler_output", found)
    rows = rows if isinstance(rows, (list, tuple)) else [rows]
    out = {"features": np.concatenate([r.numpy().reshape(-1, r.shape[-1]) for r in rows])}
    for number, level in enumerate(getattr(found, "deepstack_features", None) or ()):
        parts = level if isinstance(level, (list, tuple)) else [level]
        out[f"deepstack_{number}"] = np.concatenate([part.numpy() for part in parts])
    return out


def seen_and_heard(recipe: Recipe, model: Any, given: dict[str, Any]) -> Iterator[np.ndarray]:
    """The rows of each image or sound, in their order."""
    seen = {k: v for k, v in given.items() if not k.endswith("token_type_ids") and not k.startswith("input_")}
    rows = iter(model.get_image_features(**seen).pooler_output if seen else ())
    heard = model.model.get_audio_features(given["input_features"], given["input_features_mask"])
    for image in recipe.images:
        part = heard.pooler_output[heard.attention_mask] if isinstance(image, Sound) else next(rows)
        yield part.numpy()


COMPUTED = ("cos_1d", "sin_1d")  # tables of the oracle that its exports have, but that are no weights


def ask_mlx_vlm(recipe: Recipe, name: str) -> tuple[dict[str, Any], dict[str, list[int]], Outputs]:
    """The same of a model of mlx-vlm, whose exports are the `mlx` dialect."""
    import mlx.core as mx
    from mlx_vlm.models.cache import make_prompt_cache

    model = mlx_vlm_model(name, recipe.config)
    MENDED.get(name, lambda _: None)(model)
    shapes = shapes_of(model)
    values = tensors(shapes, recipe.seed, norm_offset=recipe.norm_offset)
    weights = [(key, mx.array(value)) for key, value in values.items() if not key.endswith(COMPUTED)]
    model.load_weights(weights, strict=len(weights) == len(values))
    given = {k: mx.array(v) for k, v in FEEDS[recipe.feed](recipe).items()}
    cache = make_prompt_cache(model.language_model)
    logits = model(mx.array([recipe.tokens]), cache=cache, **given).logits
    out: Outputs = {"logits": np.array(logits[0])}
    tokens, steps = [], [np.array(logits[0, -1])]
    for _ in range(STEPS):
        tokens.append(int(np.argmax(steps[-1])))
        steps.append(np.array(model.language_model(mx.array([[tokens[-1]]]), cache=cache).logits[0, -1]))
    out |= {"tokens": np.array(tokens, np.int32), "step_logits": np.stack(steps[:-1])}
    return dict(recipe.config), shapes, out


PARTS = ["text", "vision", "audio"]  # of configs


def mlx_vlm_model(name: str, config: Mapping[str, Any]) -> Any:
    from mlx_vlm.utils import update_module_configs

    module = import_module(f"mlx_vlm.models.{name}")
    said = deepcopy({"model_type": name, **config})  # mlx-vlm writes into it
    return module.Model(update_module_configs(module.ModelConfig.from_dict(said), module, said, PARTS))


def shapes_of(model: Any) -> dict[str, list[int]]:
    """The names and shapes of the tensors of a model of MLX."""
    from mlx.utils import tree_flatten

    return {key: list(value.shape) for key, value in tree_flatten(model.parameters())}


def variant(said: Variant, config: Mapping[str, Any]) -> dict[str, Any]:
    """A variant as a case keeps it, with the names and shapes that mlx-vlm gives it."""
    out = asdict(said)
    return out | {"tensors": shapes_of(mlx_vlm_model(said.mlx, said.config or config))} if said.mlx else out


ORACLES = {"transformers": ask_transformers, "mlx_vlm": ask_mlx_vlm}


def make(recipe: Recipe) -> None:
    """Write one case."""
    library, _, name = recipe.oracle.partition(":")
    config, shapes, out = ORACLES[library](recipe, name)
    best = np.sort(out["step_logits"], axis=-1)
    if (margin := float((best[:, -1] - best[:, -2]).min())) < NEAR_TIE:
        raise SystemExit(f"{recipe.name}: two tokens are within {margin:.1e} of each other; choose another seed")
    case = {
        "oracle": f"{library} {import_module(library).__version__}, {name}",
        "seed": recipe.seed,
        "norm_offset": recipe.norm_offset,
        "tokens": list(recipe.tokens),
        "images": [
            {"shape": i.shape, "tokens": i.tokens, "grid": i.grid, "extra": dict(i.extra)}
            | ({"kind": "audio"} if isinstance(i, Sound) else {})
            for i in recipe.images
        ],
        "variants": {n: variant(v, recipe.config) for n, v in recipe.variants.items()},
        "config": config,
        "tensors": shapes,
    }
    (HERE / "cases" / f"{recipe.name}.json").write_text(json.dumps(case, indent=1) + "\n")
    np.savez_compressed(HERE / "cases" / f"{recipe.name}.npz", **out)
    print(f"{recipe.name}: {len(shapes)} tensors, smallest margin {margin:.1e}")  # noqa: T201


if __name__ == "__main__":
    wanted = set(sys.argv[1:]) or {recipe.name for recipe in RECIPES}
    for recipe in RECIPES:
        if recipe.name in wanted:
            make(recipe)
