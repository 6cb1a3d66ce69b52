"""What the Qwen-VL families share: decoders with MRoPE, checkpoints without a tower, prompts and weight rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from docai.checkpoint.dialect import Drop, Rename, Reshape, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.preprocess.normalize import HALF
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.expansions import Stamped
from docai.vlm.families import Family, Rules
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.text import ASSISTANT, CHATML, chatml
from docai.vlm.native_images import qwen_images
from docai.vlm.positions import MropeSpec
from docai.vlm.prompt_spec import MediumPrompt, PromptSpec
from docai.vlm.spec import DecoderSpec, ModelSpec
from docai.vlm.videos import qwen_videos

# What the configuration class of Qwen2-VL and Qwen2.5-VL fills in.
QWEN_2 = {
    "vocab_size": 152_064, "hidden_size": 8192, "intermediate_size": 29_568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
    "max_position_embeddings": 32_768, "sliding_window": 4096, "max_window_layers": 80,
}  # fmt: skip
QWEN_2_SECTIONS = (16, 24, 24)
QWEN_3_SECTIONS = (24, 20, 20)
_CLIP = "<|vision_start|><|video_pad|><|vision_end|>"
CLIPS = MediumPrompt("<|video_pad|>", "<|video_pad|>", _CLIP)
STAMPED_CLIPS = MediumPrompt(_CLIP, "<|video_pad|>", _CLIP, Stamped("<|vision_start|>", "<|vision_end|>"))


def prompt_spec(*, system: bool, clips: MediumPrompt | None = CLIPS) -> PromptSpec:
    """ChatML; `system`: with the line that stands first where a conversation has none of its own (Qwen2-VL)."""
    return PromptSpec(
        placeholder="<|image_pad|>",
        token="<|image_pad|>",
        image="<|vision_start|><|image_pad|><|vision_end|>",
        template=chatml(ASSISTANT) if system else CHATML,
        clips=clips,
    )


def model_spec(
    config: Config, decoder: DecoderSpec, vision: PackedVitSpec, connector: MergerSpec, mrope: MropeSpec
) -> ModelSpec:
    """A model, or its text half where the config has no tower or says that it is to be left out."""
    only = config.get("language_model_only", False)
    if not isinstance(only, bool):
        raise CheckpointError(f"config.json: expected language_model_only to be true or false, got {only!r}")
    if only:
        return ModelSpec(decoder, notices=("language_model_only is set: loaded text-only, without the vision tower",))
    if not config.get("vision_config"):
        return ModelSpec(decoder)
    return ModelSpec(
        decoder,
        vision,
        connector,
        image_token=config.get("image_token_id", 151_655),
        video_token=config.get("video_token_id", 151_656),
        mrope=mrope,
    )


def tower(
    vision: Config, hidden: int, mlp: MlpSpec, *, layers: int = 32, patch: int = 14, **more: Any
) -> PackedVitSpec:
    """The tower that a `vision_config` describes, from the fields that all of them have; `more` are a family's own."""
    return PackedVitSpec(
        hidden,
        vision.get("depth", layers),
        vision.get("num_heads", 16),
        mlp,
        vision.get("patch_size", patch),
        frames=vision.get("temporal_patch_size", 2),
        channels=vision.get("in_channels", vision.get("in_chans", 3)),
        merge=vision.get("spatial_merge_size", 2),
        **more,
    )


def tapped_tower(vision: Config, dims: int) -> tuple[PackedVitSpec, MergerSpec]:
    """Qwen3-VL's tower and mergers, those for DeepStack among them. `dims`: of the decoder."""
    taps = tuple(vision.get("deepstack_visual_indexes", (8, 16, 24)))
    spec = tower(
        vision,
        vision.get("hidden_size", 1152),
        MlpSpec(
            vision.get("intermediate_size", 4304),
            vision.get("hidden_act", "gelu_pytorch_tanh"),
            gated=False,
            bias=True,
        ),
        layers=27,
        patch=16,
        patch_bias=True,
        positions=int(vision.get("num_position_embeddings", 2304) ** 0.5),
        taps=taps,
    )
    return spec, MergerSpec(spec.hidden, vision.get("out_hidden_size", dims), spec.merge**2, taps=len(taps))


def decoder(
    config: Config, kind: str, defaults: Mapping[str, Any], sections: tuple[int, ...], *, mixed: bool
) -> DecoderSpec:
    """The text half, whose fields stand in `text_config` or, in the first files, at the top.

    `sections` where the config names none; `mixed` as in `RopeSpec`. Whether the head is tied is said at the top; files
    of transformers 4 say it in text_config, which newer ones fill with a default that does not count.
    """
    text = (config.section("text_config") if "text_config" in config else config).with_defaults(defaults)
    spec = decoder_spec(text, kind)
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    layers = []
    for layer in spec.layers:
        rope = layer.attention.rope
        if rope is not None:
            rope = replace(rope, sections=rope.sections or sections, sections_mixed=mixed)
            if rope.sections and sum(rope.sections) != (pairs := rope.dims // 2):
                raise CheckpointError(f"config.json: mrope_section {rope.sections} does not divide {pairs} pairs")
        layers.append(replace(layer, attention=replace(layer.attention, rope=rope)))
    return replace(spec, layers=tuple(layers), tied=tied)


@dataclass(frozen=True, slots=True)
class Names:
    """What stands before the names of a dialect's tower, decoder and head. `channels_last`: MLX's convolutions."""

    tower: str
    model: str
    head: str
    channels_last: bool = False


FLAT = Names("visual.", "model.", "lm_head.")
NESTED = Names("model.visual.", "model.language_model.", "lm_head.")
MLX = Names("vision_tower.", "language_model.model.", "language_model.lm_head.", channels_last=True)

Pairs = Mapping[str, str]

# The merger of Qwen2-VL and Qwen2.5-VL, and the feed-forward blocks of each tower.
SEQUENTIAL = {"ln_q.{part}": "norm.{part}", "mlp.0.{part}": "up.{part}", "mlp.2.{part}": "down.{part}"}
NUMBERED = {"fc1.{part}": "up.{part}", "fc2.{part}": "down.{part}"}
LINEAR = {"linear_fc1.{part}": "up.{part}", "linear_fc2.{part}": "down.{part}"}
GATED = {"{x:gate|up|down}_proj.{part}": "{x}.{part}"}


def rules(
    spec: ModelSpec,
    names: Names,
    mlp: Pairs,
    merger: Pairs,
    *,
    norm_offset: bool = False,
    first: tuple[Rule, ...] = (),
) -> tuple[Rule, ...]:
    """From a dialect's names to ours. A model that is loaded without its tower leaves it out."""
    text = decoder_rules(spec.decoder, names.model, names.head, norm_offset=norm_offset)
    if spec.vision is None:
        return (*first, Drop(f"{names.tower}{{rest}}"), *text)
    block, ours, patch = f"{names.tower}blocks.{{i}}.", "vision.blocks.{i}.", f"{names.tower}patch_embed.proj."
    return (
        *first,
        *((Transpose(f"{patch}weight", (0, 4, 1, 2, 3)),) if names.channels_last else ()),
        Reshape(f"{patch}weight", (0, -1)),  # a convolution over whole patches is a matrix
        Rename(f"{patch}{{part}}", "vision.patch.{part}"),
        Rename(f"{names.tower}pos_embed.weight", "vision.positions.weight"),
        Drop(f"{names.tower}rotary_pos_emb.inv_freq"),
        Split(f"{block}attn.qkv.{{part}}", tuple(f"{ours}attn.{x}.{{part}}" for x in "qkv")),
        Rename(f"{block}attn.proj.{{part}}", f"{ours}attn.o.{{part}}"),
        Rename(f"{block}{{x:norm1|norm2}}.{{part}}", f"{ours}{{x}}.{{part}}"),
        *renames(mlp, f"{block}mlp.", f"{ours}mlp."),
        *renames(merger, f"{names.tower}merger.", "connector.merge."),
        *renames(merger, f"{names.tower}deepstack_merger_list.{{i}}.", "connector.deepstack.{i}."),
        *text,
    )


def own_rules(spec: ModelSpec) -> tuple[Rule, ...]:
    """Checkpoints that we wrote have our names; one that is loaded without its tower leaves it out."""
    return () if spec.vision is not None else (Drop("vision.{rest}"), Drop("connector.{rest}"))


def dialects(
    mlp: Pairs, merger: Pairs, hub: Names = FLAT, *, norm_offset: bool = False, first: tuple[Rule, ...] = ()
) -> dict[str, Rules]:
    """The rules of every dialect. `hub`: the names of the first files; transformers nests the same modules deeper.

    `norm_offset`: norms multiply by 1 + w; MLX's files have the 1 in them. `first`: rules before all others.
    """
    named = {"hf": hub, "transformers": NESTED, "mlx": MLX}
    common = partial(rules, mlp=mlp, merger=merger, first=first)
    foreign = {
        dialect: partial(common, names=names, norm_offset=norm_offset and names is not MLX)
        for dialect, names in named.items()
    }
    return {**foreign, "docai": own_rules}


def second_family(name: str, spec: Callable[[Config], ModelSpec], mlp: Pairs) -> Family:
    """Qwen2-VL or Qwen2.5-VL, which differ in their spec and in the feed-forward blocks of the tower."""
    return Family(
        name,
        (name,),
        spec,
        dialects(mlp=mlp, merger=SEQUENTIAL),
        prompt_spec(system=True),
        qwen_images(),
        text_only=True,
        videos=qwen_videos(),
    )


# What goes with `tapped_tower`: rules, pictures and clips.
TAPPED_MERGER = {"norm.{part}": "norm.{part}", **LINEAR}
TAPPED = dialects(mlp=LINEAR, merger=TAPPED_MERGER, hub=NESTED)
TAPPED_IMAGES = qwen_images(patch=16, mean=HALF, std=HALF, least_pixels=256**2, most_pixels=4096**2)
TAPPED_CLIPS = qwen_videos(patch=16, mean=HALF, std=HALF, whole=True, most_tokens=768)
