"""Falcon-OCR (TII): early fusion. Patches of a picture go through one linear layer into the decoder, without a tower.

Facts from the checkpoint's config and tiiuae/Falcon-Perception. A picture, its class token and four registers before it
see each other; together with the mark behind it they take one position of time.
"""

from __future__ import annotations

import numpy as np

from docai.checkpoint.dialect import Drop, Interleave, Rule, Split, renames
from docai.nn.golden import GoldenAttentionSpec, GoldenSpec
from docai.nn.mlp import MlpSpec
from docai.nn.rope import RopeSpec
from docai.vlm.config import Config
from docai.vlm.connector import ProjectorSpec
from docai.vlm.expansions import Between
from docai.vlm.families import Family
from docai.vlm.native_images import falcon_images
from docai.vlm.positions import PlaneSpec
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import DecoderSpec, LayerSpec, ModelSpec

EPS = float(np.finfo(np.float32).eps)  # of norms without weights: torch's default; only the last norm has norm_eps
BEFORE = ("<|image_cls|>", *(f"<|image_reg_{n}|>" for n in range(1, 5)))
AFTER = "<|end_of_image|>"
# What it was trained to be asked for; anything else is asked for as text.
CATEGORIES = (
    "text", "table", "formula", "caption", "footnote", "list-item", "page-footer", "page-header", "section-header",
    "title",
)  # fmt: skip
# One request: the last message's pictures, the sentence of its category (or its own words), the mark of the task.
_REQUEST = (
    f"{{% set known = {list(CATEGORIES)} %}}"
    "{% for part in messages[-1].content if part.type == 'image' %}{{ image }}{% endfor %}"
    "{% set said = namespace(text='') %}{% for part in messages[-1].content if part.type != 'image' %}"
    "{% set said.text = said.text + part.text %}{% endfor %}"
    "{% set words = said.text | replace('<|OCR_PLAIN|>', '') | trim %}{% set word = words | lower %}"
    "{% if word in known or word in ('', 'plain') %}Extract the {{ word if word in known else 'text' }} content from "
    "this image.{% else %}{{ words }}{% endif %}{{ '\\n' }}<|OCR_PLAIN|>"
)


def spec(config: Config) -> ModelSpec:
    def said(name: str, newer: str, default: int) -> int:
        number: int = config.get(name, config.get(newer, default))
        return number

    dims, heads = said("dim", "hidden_size", 768), said("n_heads", "num_attention_heads", 16)
    head_dim = config.get("head_dim", 64)
    rope = RopeSpec(head_dim // 2, float(config.get("rope_theta", 10_000)), interleaved=True)
    attention = GoldenAttentionSpec(heads, said("n_kv_heads", "num_key_value_heads", 8), head_dim, rope, eps=EPS)
    mlp = MlpSpec(said("ffn_dim", "intermediate_size", 2304), "relu2")
    decoder = DecoderSpec(
        dims,
        config.get("vocab_size", 65_536),
        (LayerSpec(attention, mlp),) * said("n_layers", "num_hidden_layers", 22),
        said("max_seq_len", "max_position_embeddings", 8192),
        norm_eps=config.get("norm_eps", config.get("rms_norm_eps", 1e-5)),
        bare_norm_eps=EPS,
        golden=GoldenSpec(heads, head_dim // 4),
    )
    patch = config.get("spatial_patch_size", 16) ** 2 * config.get("channel_size", 3)
    return ModelSpec(
        decoder,
        connector=ProjectorSpec(patch * config.get("temporal_patch_size", 1), dims, activation=None, bias=False),
        image_token=config.get("img_id", 227),
        image_mask="image",
        image_marks=len(BEFORE),
        mrope=PlaneSpec(len(BEFORE), 1),
    )


def published(spec: ModelSpec) -> tuple[Rule, ...]:
    """Names of the published file, where rows of gate and up alternate."""
    layer, ours = "layers.{i}.", "decoder.layers.{i}."
    fused = "feed_forward.w13.{part}"
    return (
        *_shared(spec, f"{layer}attention."),
        Interleave(layer + fused, inverse=True),
        Split(layer + fused, (f"{ours}mlp.gate.{{part}}", f"{ours}mlp.up.{{part}}")),
        *renames({"feed_forward.w2.{part}": "mlp.down.{part}"}, layer, ours),
        *renames(
            {
                "tok_embeddings.weight": "decoder.embed.weight",
                "img_projector.weight": "connector.up.weight",
                "norm.weight": "decoder.norm.weight",
                "output.weight": "decoder.head.weight",
                "freqs_cis_golden": "decoder.golden.weight",
            }
        ),
    )


def mlx(spec: ModelSpec) -> tuple[Rule, ...]:
    """Names of mlx-vlm, which has gate and up one after the other and stores tables that are computed here."""
    model, ours = "language_model.model.", "decoder.layers.{i}."
    layer = f"{model}layers.{{i}}."
    return (
        *_shared(spec, f"{layer}self_attn."),
        Split(f"{layer}mlp.w13.{{part}}", (f"{ours}mlp.gate.{{part}}", f"{ours}mlp.up.{{part}}")),
        *renames({"mlp.w2.{part}": "mlp.down.{part}"}, layer, ours),
        Drop(f"{model}{{name:cos_1d|sin_1d}}"),
        *renames(
            {
                "embed_tokens.weight": "decoder.embed.weight",
                "img_projector.weight": "connector.up.weight",
                "norm.weight": "decoder.norm.weight",
                "freqs_cis_golden": "decoder.golden.weight",
            },
            model,
        ),
        *renames({"language_model.lm_head.weight": "decoder.head.weight"}),
    )


def _shared(spec: ModelSpec, attention: str) -> tuple[Rule, ...]:
    heads = spec.decoder.layers[0].attention
    sizes = (heads.heads, heads.kv_heads, heads.kv_heads)
    ours = "decoder.layers.{i}.attn."
    return (
        Split(f"{attention}wqkv.{{part}}", tuple(f"{ours}{n}.{{part}}" for n in "qkv"), 0, sizes),
        *renames({"wo.{part}": "o.{part}", "sinks": "sinks"}, attention, ours),
    )


FAMILY = Family(
    "falcon_ocr",
    ("falcon_ocr",),
    spec,
    {"hf": published, "mlx": mlx},
    PromptSpec(
        placeholder="<|image|>",
        token="<|image|>",
        image="<|image|>",
        template=_REQUEST,
        plain=_REQUEST,
        expand=Between("".join(BEFORE), AFTER),
        surround=False,
        fixed=True,
        stops=("<|end_of_query|>", "<|end_of_text|>"),
        most_images=1,
    ),
    falcon_images(),
    no_video="it reads one picture at a time",
)
