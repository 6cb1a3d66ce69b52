"""Ask the oracles: `python tests/parity/make.py [NAME...]` writes the cases of the recipes with these names, or all.

Needs the `oracle` extra (torch, transformers, mlx-vlm, in the versions that it pins); the suite does not. A case keeps
the oracle's config, the names and shapes of its tensors and its outputs. Its weights come from `weights.py`, here as in
the test; the oracle loads them from a file, as it would a published checkpoint.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict
from importlib import import_module
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.recipes import RECIPES, Image, Recipe, Variant  # noqa: E402
from tests.parity.weights import noise, tensors  # noqa: E402

STEPS = 8  # tokens of the greedy answer
NEAR_TIE = 2e-3  # two best logits closer than this are no test: take another seed
Outputs = dict[str, np.ndarray]


def pixels(image: Image, number: int, seed: int) -> np.ndarray:
    """The pixels of an image of a case; the test makes the same."""
    return noise(f"image {number}", image.shape, seed)


def all_pixels(recipe: Recipe) -> list[np.ndarray]:
    return [pixels(image, number, recipe.seed) for number, image in enumerate(recipe.images)]


# --- what an oracle is fed with: (recipe) -> keyword arguments of its forward pass, as NumPy arrays


def text(recipe: Recipe) -> dict[str, np.ndarray]:
    return {}


def qwen(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images in a row, their grids, and which tokens are theirs (else transformers skips MRoPE)."""
    token = recipe.config["image_token_id"]
    return {
        "pixel_values": np.concatenate(all_pixels(recipe)),
        "image_grid_thw": np.array([image.grid for image in recipe.images]),
        "mm_token_type_ids": np.array([[int(t == token) for t in recipe.tokens]]),
    }


def qwen_mlx(recipe: Recipe) -> dict[str, np.ndarray]:
    return {key: value for key, value in qwen(recipe).items() if key != "mm_token_type_ids"}


def qwen_clip(recipe: Recipe) -> dict[str, np.ndarray]:
    """Images, and one clip: its patches, its grid, the seconds between its steps where the family asks for them."""
    kinds = {recipe.config["image_token_id"]: 1, recipe.config["video_token_id"]: 2}
    seen = list(zip(recipe.images, all_pixels(recipe), strict=True))
    stills = [(image, values) for image, values in seen if image.grid and image.grid[0] == 1]
    ((clip, frames),) = ((image, values) for image, values in seen if image.grid and image.grid[0] > 1)
    seconds = {"second_per_grid_ts": np.array([clip.extra["seconds"]])} if "seconds" in clip.extra else {}
    return {
        "pixel_values": np.concatenate([values for _, values in stills]),
        "image_grid_thw": np.array([image.grid for image, _ in stills]),
        "pixel_values_videos": frames,
        "video_grid_thw": np.array([clip.grid]),
        "mm_token_type_ids": np.array([[kinds.get(t, 0) for t in recipe.tokens]]),
        **seconds,
    }


def pictures(recipe: Recipe) -> dict[str, np.ndarray]:
    """Pictures of one size, (N, 3, H, W)."""
    return {"pixel_values": channels_first(np.concatenate(all_pixels(recipe)))}


def masked(recipe: Recipe) -> dict[str, np.ndarray]:
    """With a mask, which the oracle wants to have and does not look at."""
    return {**pictures(recipe), "mask": np.ones((1, len(recipe.tokens)), np.int32)}


def channels_first(pictures: np.ndarray) -> np.ndarray:
    """(..., H, W, C) -> (..., C, H, W)"""
    return np.ascontiguousarray(np.moveaxis(pictures, -1, -3))


def tiles(recipe: Recipe) -> dict[str, np.ndarray]:
    """Tiles of each image, filled up to the largest number, (N, tiles, 3, H, W), and the images' sizes."""
    most = max(image.shape[0] for image in recipe.images)
    filled = [np.pad(a, [(0, most - len(a)), (0, 0), (0, 0), (0, 0)]) for a in all_pixels(recipe)]
    return {
        "pixel_values": channels_first(np.stack(filled)),
        "image_sizes": np.array([image.extra["size"] for image in recipe.images]),
    }


def fitted(recipe: Recipe) -> dict[str, np.ndarray]:
    """Pictures of any size, put together of their patches and filled up to the largest, and their sizes in pixels."""
    whole = [unpatched(a, image) for a, image in zip(all_pixels(recipe), recipe.images, strict=True)]
    sizes = np.array([a.shape[1:] for a in whole])
    height, width = sizes.max(axis=0)
    filled = [np.pad(a, [(0, 0), (0, height - a.shape[1]), (0, width - a.shape[2])]) for a in whole]
    return {"pixel_values": np.stack(filled), "image_sizes": sizes}


def unpatched(patches: np.ndarray, image: Image) -> np.ndarray:
    """Patches (N, 3 * p * p), in blocks that give a token each, as the picture (3, H, W) that they were cut from."""
    assert image.grid is not None
    _, h, w = image.grid
    merge, side = isqrt(h * w // image.tokens), isqrt(patches.shape[1] // 3)
    split = patches.reshape(h // merge, w // merge, merge, merge, 3, side, side)
    return split.transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, h * side, w * side)


def moonvit(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images row by row, (N, 3, p, p), and their grids (h, w)."""
    rows = []
    for image, values in zip(recipe.images, all_pixels(recipe), strict=True):
        whole = unpatched(values, image)  # (3, H, W)
        side = isqrt(values.shape[1] // 3)
        split = whole.reshape(3, whole.shape[1] // side, side, whole.shape[2] // side, side)
        rows.append(split.transpose(1, 3, 0, 2, 4).reshape(-1, 3, side, side))
    return {
        "pixel_values": np.concatenate(rows),
        "image_grid_hws": np.array([image.grid[1:] for image in recipe.images if image.grid]),
    }


def flat(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all images in a row, as they lie in blocks, and their grids (h, w)."""
    grids = [image.grid[1:] for image in recipe.images if image.grid]
    return {"pixel_values": np.concatenate(all_pixels(recipe)), "spatial_shapes": np.array(grids)}


def naflex(recipe: Recipe) -> dict[str, np.ndarray]:
    """Patches of all parts of all images row by row, (parts, most, p * p * 3), which of them count, and the grids."""
    parts: list[np.ndarray] = []
    grids: list[tuple[int, int]] = []
    for image, values in zip(recipe.images, all_pixels(recipe), strict=True):
        own = [grid[1:] for grid in image.extra.get("grids", [image.grid])]
        side = isqrt(sum(h * w for h, w in own) // image.tokens)  # of a block of patches that gives a token
        for (h, w), patches in zip(own, np.split(values, np.cumsum([h * w for h, w in own])[:-1]), strict=True):
            blocks = patches.reshape(h // side, w // side, side, side, -1)
            parts.append(blocks.swapaxes(1, 2).reshape(h * w, -1))
            grids.append((h, w))
    most = max(len(part) for part in parts)
    return {
        "pixel_values": np.stack([np.pad(part, [(0, most - len(part)), (0, 0)]) for part in parts]),
        "pixel_attention_mask": np.array([[int(n < len(part)) for n in range(most)] for part in parts]),
        "spatial_shapes": np.array(grids),
    }


def falcon(recipe: Recipe) -> dict[str, np.ndarray]:
    """One picture (1, H, W, 3) put together of its patches, whose numbers are in (p, p, 3) order, and its grid."""
    (image,), (patches,) = recipe.images, all_pixels(recipe)
    assert image.grid is not None
    (_, h, w), side = image.grid, isqrt(patches.shape[1] // 3)
    whole = patches.reshape(h, w, side, side, 3).swapaxes(1, 2).reshape(1, h * side, w * side, 3)
    return {"pixel_values": whole, "image_grid_hw": np.array([[h, w]])}


def prefix(recipe: Recipe) -> dict[str, np.ndarray]:
    """PaliGemma: every token of the prompt is of the prefix, which is type 0."""
    return {**pictures(recipe), "token_type_ids": np.zeros((1, len(recipe.tokens)), np.int64)}


def marked(recipe: Recipe) -> dict[str, np.ndarray]:
    """Gemma 3: the tokens of images are of type 1."""
    token = recipe.config["image_token_id"]
    return {**pictures(recipe), "token_type_ids": np.array([[int(t == token) for t in recipe.tokens]])}


FEEDS: dict[str, Callable[[Recipe], dict[str, np.ndarray]]] = {
    "text": text,
    "qwen": qwen,
    "qwen_clip": qwen_clip,
    "qwen_mlx": qwen_mlx,
    "pictures": pictures,
    "masked": masked,
    "tiles": tiles,
    "fitted": fitted,
    "falcon": falcon,
    "moonvit": moonvit,
    "naflex": naflex,
    "flat": flat,
    "prefix": prefix,
    "marked": marked,
}


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
    found = model.get_image_features(**{k: v for k, v in given.items() if not k.endswith("token_type_ids")})
    rows = getattr(found, "pooler_output", found)
    rows = rows if isinstance(rows, (list, tuple)) else [rows]
    out = {"features": np.concatenate([r.numpy().reshape(-1, r.shape[-1]) for r in rows])}
    for number, level in enumerate(getattr(found, "deepstack_features", None) or ()):
        parts = level if isinstance(level, (list, tuple)) else [level]
        out[f"deepstack_{number}"] = np.concatenate([part.numpy() for part in parts])
    return out


def mend_qwen3_vl_moe(model: Any) -> None:
    """mlx-vlm 0.7.10 has the two kinds of GELU of the tower the wrong way round, other than in its dense sister."""
    from mlx import nn

    tower = model.vision_tower
    for block in tower.blocks:
        block.mlp.act_fn = nn.GELU(approx="tanh")
    for merger in (tower.merger, *tower.deepstack_merger_list):
        merger.act_fn = nn.GELU()


def mend_falcon_ocr(model: Any) -> None:
    """mlx-vlm 0.7.10 gives norms without weights the epsilon of the last norm, 1e-5.

    tiiuae/Falcon-Perception leaves it to torch: float32's epsilon (as sawfwair/mere-run#515 found, too).
    """
    for layer in model.layers:
        layer.self_attn.eps = layer.mlp.eps = float(np.finfo(np.float32).eps)


def mend_locateanything(model: Any) -> None:
    """mlx-vlm 0.7.10 resamples MoonViT's positions with a kernel that is not torch's (off by 3e-2).

    The tower is Kimi K2.5's of transformers, which is the same for images; its pairs of turns are halves of a head.
    """
    type(model.vision_tower).__call__ = moonvit_of_transformers


def moonvit_of_transformers(tower: Any, pixels: Any, grid_thw: Any, **_: Any) -> list[Any]:
    """In the place of mlx-vlm's: pixels (N, p, p, 3) and grids (h, w) -> the rows of each block, in order."""
    import mlx.core as mx
    import torch
    from mlx.utils import tree_flatten
    from transformers import Kimi_K25VisionConfig, Kimi_K25VisionModel

    said = tower.config
    config = Kimi_K25VisionConfig(
        patch_size=said.patch_size, pos_emb_height=said.init_pos_emb_height, pos_emb_width=said.init_pos_emb_width,
        num_attention_heads=said.num_heads, num_hidden_layers=said.depth, hidden_size=said.hidden_size,
        intermediate_size=said.intermediate_size, merge_kernel_size=said.merge_kernel_size,
    )  # fmt: skip
    twin = Kimi_K25VisionModel(config).eval()
    weights = {}
    for name, value in tree_flatten(tower.parameters()):
        new, array = name.replace("blocks.", "layers."), torch.from_numpy(np.array(value))
        for old, newer in (
            ("norm1", "norm2"),
            ("norm0", "norm1"),
            ("fc1", "fc2"),
            ("fc0", "fc1"),
            ("attn.wo", "attn.proj"),
        ):
            if old in name:
                new = new.replace(old, newer)
        if "proj.weight" in name and array.ndim == 4:
            array = array.permute(0, 3, 1, 2)
        if "wqkv" in name:
            for part, rows in zip("qkv", array.chunk(3), strict=True):
                heads = rows.reshape(said.num_heads, -1, 2, *rows.shape[1:])
                halves = heads if part == "v" else heads.transpose(1, 2)
                weights[new.replace("wqkv", f"{part}_proj")] = halves.reshape(rows.shape)
        else:
            weights[new.replace("pos_emb.weight", "pos_emb.position_embeddings")] = array
    twin.load_state_dict(weights)
    images = torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2)
    grids = torch.tensor([[1, *grid] for grid in grid_thw.tolist()])
    with torch.no_grad():
        return [mx.array(twin(images, grids).pooler_output.numpy())]


def mend_cohere_vision(model: Any) -> None:
    """transformers 5.24 leaves out the scale of Cohere2's logits where it has a tower.

    Its own first version and Cohere2ForCausalLM apply it, as mlx-vlm does.
    """
    scale = model.config.text_config.logit_scale
    model.lm_head.register_forward_hook(lambda _, __, logits: logits * scale)


def mend_phi3_v(model: Any) -> None:
    """mlx-vlm 0.7.10 knows one size of CLIP, and lays the tiles of a picture out as if they were one above another.

    Microsoft's code (modeling_phi3_v.py) puts them together where they lie before it ends their lines.
    """
    from types import SimpleNamespace

    import mlx.core as mx
    from mlx import nn

    said, kind, out = model.config.vision_config, type(model.model.vision_embed_tokens), model.config.hidden_size
    fields = (
        "hidden_size",
        "image_size",
        "intermediate_size",
        "num_attention_heads",
        "num_hidden_layers",
        "patch_size",
    )
    small = {name: getattr(said, name) for name in fields}
    kind.CLIP_VIT_LARGE_PATCH14_336_CONFIG = SimpleNamespace(
        model_type="phi3_v", layer_norm_eps=1e-5, num_channels=3, **small
    )
    tower, dims = kind(model.config), 4 * said.hidden_size
    tower.glb_GN, tower.sub_GN = mx.zeros([1, 1, dims]), mx.zeros([1, 1, 1, dims])
    tower.img_projection = [nn.Linear(dims, out), nn.GELU(), nn.Linear(out, out)]
    model.model.vision_embed_tokens = tower
    side = said.image_size // said.patch_size

    def lines(rows: Any, h: int, w: int) -> Any:
        """(h * w, side * side, C), tiles row by row, -> (1, lines with their ends, 4 * C)"""
        whole = rows.reshape(h, w, side, side, -1).transpose(0, 2, 1, 3, 4)  # (h, side, w, side, C)
        blocks = whole.reshape(h * side // 2, 2, w * side // 2, 2, -1).transpose(0, 2, 1, 3, 4)
        blocks = blocks.reshape(1, h * side // 2, w * side // 2, dims)
        return mx.concatenate([blocks, mx.tile(tower.sub_GN, (1, h * side // 2, 1, 1))], axis=2).reshape(1, -1, dims)

    def placed(tower: Any, pixels: Any, x: Any, sizes: Any, places: Any) -> Any:
        rows = []
        for picture, (h, w) in zip(pixels, (sizes // said.image_size).tolist(), strict=True):
            states = tower.img_processor.vision_model(picture[: 1 + h * w].transpose(0, 2, 3, 1), True)[-1]
            seen = states[-2][:, 1:]
            parts = [lines(seen[1:], h, w), tower.glb_GN, lines(seen[:1], 1, 1)]
            one = mx.concatenate(parts, axis=1)
            for layer in tower.img_projection:
                one = layer(one)
            rows.append(one[0])
        x[0, mx.array([at for _, at in places])] = mx.concatenate(rows)
        return x

    kind.__call__ = placed


def mend_phi4_siglip(model: Any) -> None:
    """mlx-vlm 0.7.10 resamples SigLIP 2's positions bicubically, and puts an image in the place of one token.

    transformers resamples them linearly, with antialiasing, as does mlx-vlm under LFM2-VL.
    """
    import mlx.core as mx
    from mlx_vlm.models.lfm2_vl.vision import VisionEmbeddings

    embeddings = model.vision_tower.vision_tower.vision_model.embeddings
    type(embeddings).resize_positional_embeddings = staticmethod(VisionEmbeddings.resize_positional_embeddings)

    def placed(rows: list[Any], x: Any, ids: Any) -> Any:
        x[0, mx.array(np.flatnonzero(np.array(ids[0]) < 0))] = mx.concatenate(rows)
        return x

    type(model)._prepare_inputs_for_multimodal = staticmethod(placed)


def mend_llava_bunny(model: Any) -> None:
    """mlx-vlm 0.7.10 wants 729 rows of an image, whatever the config says, in the place of one token.

    Its SigLIP has a rough approximation of GELU, where Google's and transformers' have the one by tanh.
    """
    import mlx.core as mx
    from mlx import nn
    from mlx_vlm.models.base import InputEmbeddingsFeatures

    def embedded(model: Any, ids: Any, pixels: Any = None, **_: Any) -> Any:
        x = model.language_model.model.embed_tokens(mx.maximum(ids, 0))
        if pixels is not None:
            *_, states = model.vision_tower(pixels.transpose(0, 2, 3, 1), output_hidden_states=True)
            rows = model.mm_projector(states[-1])
            places = np.flatnonzero(np.array(ids[0]) == model.config.image_token_index)
            x[0, mx.array(places)] = rows.reshape(-1, rows.shape[-1])
        return InputEmbeddingsFeatures(inputs_embeds=x)

    type(model).get_input_embeddings = embedded
    for layer in model.vision_tower.vision_tower.vision_model.encoder.layers:
        layer.mlp.activation_fn = nn.GELU(approx="tanh")


# oracles that are wrong somewhere
MENDED: dict[str, Callable[[Any], None]] = {
    "AyaVisionForConditionalGeneration": mend_cohere_vision,
    "Cohere2VisionForConditionalGeneration": mend_cohere_vision,
    "falcon_ocr": mend_falcon_ocr,
    "llava_bunny": mend_llava_bunny,
    "phi3_v": mend_phi3_v,
    "phi4_siglip": mend_phi4_siglip,
    "locateanything": mend_locateanything,
    "qwen3_vl_moe": mend_qwen3_vl_moe,
}
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


def mlx_vlm_model(name: str, config: Mapping[str, Any]) -> Any:
    from mlx_vlm.utils import update_module_configs

    module = import_module(f"mlx_vlm.models.{name}")
    said = deepcopy({"model_type": name, **config})  # mlx-vlm writes into it
    return module.Model(update_module_configs(module.ModelConfig.from_dict(said), module, said, ["text", "vision"]))


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
            {"shape": i.shape, "tokens": i.tokens, "grid": i.grid, "extra": dict(i.extra)} for i in recipe.images
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
