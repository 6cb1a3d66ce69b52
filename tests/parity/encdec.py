"""Tiny encoder-decoder models: what their oracle is built from, and `python tests/parity/encdec.py [NAME...]`, which
asks.

As `make.py` does for causal models: a case keeps the oracle's config, the names and shapes of its tensors and its
outputs; weights come from `weights.py`. Needs the `oracle` extra to make cases; the suite needs only what is in
`cases/encdec`. Pictures are not square, and no grid is a multiple of the windows.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
CASES = HERE / "cases" / "encdec"
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.weights import noise, tensors  # noqa: E402

NEAR_TIE = 2e-3  # two best logits closer than this are no test: take another seed
STEPS, BEAMS = 12, 3
PENALTY = 1.1
Array = NDArray[np.float32]
Outputs = dict[str, np.ndarray]
Shapes = dict[str, list[int]]


@dataclass(frozen=True)
class Recipe:
    """A case. `picture`: height, width. `prompt` is read behind it, `seed_ids` begins the answer."""

    name: str
    oracle: str
    config: Mapping[str, Any]
    picture: tuple[int, int]
    prompt: tuple[int, ...] = ()
    begin: tuple[int, ...] = (2,)
    seed: int = 1
    beams: Mapping[str, Any] = field(default_factory=dict)


BART = {
    "model_type": "bart", "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 48, "vocab_size": 120,
    "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
DAVIT = {
    "depths": [1, 1, 2, 1], "embed_dim": [16, 24, 32, 48], "num_heads": [2, 2, 4, 2], "num_groups": [2, 4, 2, 3],
    "window_size": 4, "projection_dim": 32, "max_position_embeddings": 10, "max_temporal_embeddings": 7,
}  # fmt: skip
FLORENCE = {"text_config": BART, "vision_config": DAVIT, "image_token_id": 119}
RADIO = {"hidden_size": 64, "num_heads": 4, "mlp_ratio": 1.5, "num_layers": 2, "patch_size": 4, "neck_dim": 32}
MBART = {
    "d_model": 32, "decoder_attention_heads": 2, "decoder_ffn_dim": 96, "decoder_layers": 3, "vocab_size": 100,
    "scale_embedding": True, "max_position_embeddings": 64, "decoder_start_token_id": None,
}  # fmt: skip
NEMOTRON = {
    "model_type": "nemotron_parse", "encoder": RADIO, "decoder": MBART, "decoder_start_token_id": 2, "vocab_size": 100,
    "max_sequence_length": 64, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PROMPT = (0, *range(5, 17), 2)

RECIPES = (
    Recipe("florence2", "transformers", FLORENCE, (96, 136), PROMPT, beams={"early_stopping": True}),
    Recipe(
        "florence2-untied", "transformers",
        {**FLORENCE, "tie_word_embeddings": False},
        (128, 96), PROMPT, seed=2, beams={"early_stopping": False, "length_penalty": 0.6},
    ),
    Recipe("nemotron_parse", "mlx_vlm", {**NEMOTRON, "image_size": [32, 40]}, (32, 40), begin=(2, 0, 7, 8, 9, 10)),
    Recipe(
        "nemotron_parse-untied", "mlx_vlm", {**NEMOTRON, "image_size": [32, 28], "tie_word_embeddings": False},
        (32, 28), begin=(2, 0, 7, 8, 9, 10), seed=3,
    ),
)  # fmt: skip

# How the original files of Florence-2 call what transformers saves, in order.
ORIGINAL = (
    (r"^model\.vision_tower\.convs\.(\d+)\.conv", r"vision_tower.convs.\1.proj"),
    (r"^model\.vision_tower", "vision_tower"),
    (r"\.(conv[12])\.(weight|bias)$", r".\1.fn.dw.\2"),
    (r"\.(spatial|channel)_block\.norm1", r".\1_block.\1_attn.norm"),
    (r"\.spatial_attn\.", ".window_attn."),
    (r"_attn\.(qkv|proj)", r"_attn.fn.\1"),
    (r"\.norm2\.", ".ffn.norm."),
    (r"\.ffn\.(fc[12])", r".ffn.fn.net.\1"),
    (r"^model\.multi_modal_projector\.image_projection\.weight", "image_projection"),
    (r"^model\.multi_modal_projector\.image_position_embed", "image_pos_embed"),
    (r"^model\.multi_modal_projector\.", ""),
    (r"^model\.language_model\.", "language_model.model."),
    (r"^lm_head", "language_model.lm_head"),
)
# The same for Nemotron-Parse, of what mlx-vlm saves.
SOURCE = (
    (r"^vision_tower\.patch_embed", "encoder.model_encoder.radio_model.model.patch_generator.embedder"),
    (r"^vision_tower\.pos_embed", "encoder.model_encoder.radio_model.model.patch_generator.pos_embed"),
    (r"^vision_tower\.cls_token", "encoder.model_encoder.radio_model.model.patch_generator.cls_token.token"),
    (r"^vision_tower\.blocks", "encoder.model_encoder.radio_model.model.blocks"),
    (r"^vision_tower\.neck", "encoder"),
    (r"^language_model\.model\.shared", "decoder.embed_tokens"),
    (r"^language_model\.model\.decoder", "decoder"),
    (r"^language_model\.lm_head", "lm_head"),
)


def picture(recipe_size: tuple[int, int], seed: int) -> Array:
    """The pixels (1, H, W, 3) of a case; the test makes the same."""
    return noise("picture", (1, *recipe_size, 3), seed)


def weights(shapes: Mapping[str, list[int]], seed: int, *, tied: bool) -> dict[str, Array]:
    """The tensors of a case. A tied head is there twice in files of MLX."""
    made = tensors(shapes, seed)
    head, table = "language_model.lm_head.weight", "language_model.model.shared.weight"
    if tied and head in made and table in made:
        made[head] = made[table]
    return made


def renamed(name: str, renames: tuple[tuple[str, str], ...]) -> str:
    for pattern, new in renames:
        name = re.sub(pattern, new, name)
    return name


def original(values: Mapping[str, Array], *, channels_last: bool = False) -> dict[str, Array]:
    """Florence-2's tensors as Microsoft has them; `channels_last`: as MLX has those."""
    out = {renamed(name, ORIGINAL): value for name, value in values.items()}
    out["image_projection"] = np.ascontiguousarray(out["image_projection"].T)
    out.setdefault("language_model.lm_head.weight", out["language_model.model.shared.weight"])
    for side in ("encoder", "decoder"):
        out[f"language_model.model.{side}.embed_tokens.weight"] = out["language_model.model.shared.weight"]
    out["language_model.final_logits_bias"] = np.zeros((1, len(out["language_model.model.shared.weight"])), np.float32)
    if channels_last:
        out = {n: np.ascontiguousarray(np.moveaxis(a, 1, -1)) if a.ndim == 4 else a for n, a in out.items()}
    return out


def source(values: Mapping[str, Array], *, tied: bool) -> dict[str, Array]:
    """Nemotron-Parse's tensors as NVIDIA has them: convolutions of torch, buffers, heads that only training needs."""
    out = {renamed(name, SOURCE): value for name, value in values.items()}
    out["encoder.conv1.weight"] = np.ascontiguousarray(out["encoder.conv1.weight"].transpose(0, 2, 1))
    out["encoder.conv2.weight"] = np.ascontiguousarray(out["encoder.conv2.weight"].transpose(0, 3, 1, 2))
    if tied:
        del out["lm_head.weight"]
    three = np.zeros((3,), np.float32)
    names = ("summary_idxs", "input_conditioner.norm_mean", "input_conditioner.norm_std")
    return out | {f"encoder.model_encoder.radio_model.{name}": three for name in names}


def original_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Florence-2's config as Microsoft has it."""
    vision = dict(config["vision_config"])
    text = {**config["text_config"], "model_type": "florence2_language"}
    for name in ("max_temporal_embeddings", "max_position_embeddings", "model_type"):
        vision.pop(name, None)
    vision |= {
        "model_type": "davit", "dim_embed": vision.pop("embed_dim"), "in_chans": 3,
        "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": DAVIT["max_position_embeddings"]},
        "visual_temporal_embedding": {
            "type": "COSINE", "max_temporal_embeddings": DAVIT["max_temporal_embeddings"],
        },
        "image_feature_source": ["spatial_avg_pool", "temporal_avg_pool"],
    }  # fmt: skip
    return {"model_type": "florence2", "vision_config": vision, "text_config": text}


# --- what follows asks the oracles


def ask_transformers(recipe: Recipe) -> tuple[dict[str, Any], Shapes, Outputs]:
    """(config as saved, shapes of the tensors as saved, outputs) of Florence-2."""
    import torch
    from safetensors import safe_open
    from safetensors.numpy import save_file
    from transformers import Florence2ForConditionalGeneration as Kind

    with tempfile.TemporaryDirectory() as folder:
        Kind(Kind.config_class(**recipe.config)).float().save_pretrained(folder)
        file = Path(folder) / "model.safetensors"
        with safe_open(file, "np") as opened:
            shapes = {key: list(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118 - no dict
        save_file(weights(shapes, recipe.seed, tied=False), file, {"format": "pt"})
        model, said = Kind.from_pretrained(
            folder, output_loading_info=True, attn_implementation="eager", dtype=torch.float32
        )
        if any(said.get(key) for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            raise SystemExit(f"{recipe.name}: the oracle did not take its own tensors: {said}")
        saved = json.loads((Path(folder) / "config.json").read_text())
    model.eval()
    pixels = torch.from_numpy(np.ascontiguousarray(np.moveaxis(picture(recipe.picture, recipe.seed), -1, 1)))
    token = recipe.config["image_token_id"]
    with torch.no_grad():
        features = model.get_image_features(pixels).pooler_output
        ids = torch.tensor([[*[token] * features.shape[1], *recipe.prompt]])
        given = {"input_ids": ids, "pixel_values": pixels}
        begin = torch.tensor([[*recipe.begin, *range(20, 30)]])
        out = {"features": features[0], "logits": model(**given, decoder_input_ids=begin).logits[0]}
        asked = {**given, "attention_mask": torch.ones_like(ids), "do_sample": False, "return_dict_in_generate": True}
        greedy = model.generate(
            **asked, max_new_tokens=STEPS, output_logits=True, no_repeat_ngram_size=3,
            forced_bos_token_id=0, forced_eos_token_id=None, num_beams=1,
        )  # fmt: skip
        found = model.generate(
            **asked, max_new_tokens=STEPS, num_beams=BEAMS, num_return_sequences=BEAMS, no_repeat_ngram_size=3,
            forced_bos_token_id=0, forced_eos_token_id=None, output_scores=True, **recipe.beams,
        )  # fmt: skip
    out |= {"tokens": greedy.sequences[0, 1:], "step_logits": torch.cat(greedy.logits)}
    out |= {"beams": found.sequences[:, 1:], "beam_scores": found.sequences_scores}
    return saved, shapes, {name: value.numpy() for name, value in out.items()}


def ask_mlx_vlm(recipe: Recipe) -> tuple[dict[str, Any], Shapes, Outputs]:
    """The same of Nemotron-Parse, and the decoder's scores by transformers' mBART without its positions."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_vlm.models.nemotron_parse import Model
    from mlx_vlm.models.nemotron_parse.config import ModelConfig

    model = Model(ModelConfig.from_dict(json.loads(json.dumps(recipe.config))))
    shapes = {key: list(value.shape) for key, value in tree_flatten(model.parameters())}
    tied = recipe.config.get("tie_word_embeddings", True)
    values = weights(shapes, recipe.seed, tied=tied)
    model.load_weights([(key, mx.array(value)) for key, value in values.items()])
    states = model.vision_tower(mx.array(np.moveaxis(picture(recipe.picture, recipe.seed), -1, 1)))
    ids, cache = mx.array([recipe.begin]), model.make_cache()
    logits = model.language_model(encoder_outputs=states, decoder_input_ids=ids, cache=cache).logits
    out: Outputs = {"features": np.array(states[0]), "logits": np.array(logits[0])}
    tokens, steps = [], [np.array(logits[0, -1])]
    for _ in range(STEPS):
        tokens.append(penalised(steps[-1], [*recipe.begin, *tokens]))
        step = mx.array([[tokens[-1]]])
        logits = model.language_model(encoder_outputs=states, decoder_input_ids=step, cache=cache).logits
        steps.append(np.array(logits[0, -1]))
    out |= {"tokens": np.array(tokens, np.int32), "step_logits": np.stack(steps[:-1])}
    out["logits_torch"] = ask_mbart(recipe, values, out["features"])
    return dict(recipe.config), shapes, out


def penalised(logits: Array, seen: list[int]) -> int:
    """The likeliest token where those of the answer and of its beginning are penalised."""
    scores = logits.copy()
    for token in set(seen):
        scores[token] = scores[token] * PENALTY if scores[token] < 0 else scores[token] / PENALTY
    return int(scores.argmax())


def ask_mbart(recipe: Recipe, values: Mapping[str, Array], states: Array) -> Array:
    import torch
    from transformers import MBartConfig
    from transformers.models.mbart.modeling_mbart import MBartDecoder

    said = {key: value for key, value in MBART.items() if value is not None}
    decoder = MBartDecoder(MBartConfig(**said, encoder_layers=1, encoder_ffn_dim=8, encoder_attention_heads=2)).eval()
    prefix = "language_model.model.decoder."
    own = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    table = values["language_model.model.shared.weight"]
    own |= {"embed_tokens.weight": table, "embed_positions.weight": np.zeros((66, MBART["d_model"]), np.float32)}
    decoder.load_state_dict({name: torch.from_numpy(value) for name, value in own.items()})
    with torch.no_grad():
        hidden = decoder(
            input_ids=torch.tensor([recipe.begin]), encoder_hidden_states=torch.from_numpy(states)[None]
        ).last_hidden_state[0]
    return hidden.numpy() @ values["language_model.lm_head.weight"].T


def make(recipe: Recipe) -> None:
    """Write one case."""
    oracle = ask_transformers if recipe.oracle == "transformers" else ask_mlx_vlm
    config, shapes, out = oracle(recipe)
    best = np.sort(out["step_logits"], axis=-1)
    if (margin := float((best[:, -1] - best[:, -2]).min())) < NEAR_TIE:
        raise SystemExit(f"{recipe.name}: two tokens are within {margin:.1e} of each other; choose another seed")
    from importlib import import_module

    case = {
        "oracle": f"{recipe.oracle} {import_module(recipe.oracle).__version__}",
        "seed": recipe.seed,
        "picture": recipe.picture,
        "prompt": recipe.prompt,
        "begin": recipe.begin,
        "beams": dict(recipe.beams),
        "config": config,
        "tensors": shapes,
    }
    (CASES / f"{recipe.name}.json").write_text(json.dumps(case, indent=1) + "\n")
    np.savez_compressed(CASES / f"{recipe.name}.npz", **out)
    print(f"{recipe.name}: {len(shapes)} tensors, margin {margin:.1e}, {out['tokens']}")  # noqa: T201
    if "beams" in out:
        print(out["beams"], out["beam_scores"])  # noqa: T201


if __name__ == "__main__":
    wanted = set(sys.argv[1:]) or {recipe.name for recipe in RECIPES}
    for recipe in RECIPES:
        if recipe.name in wanted:
            make(recipe)
