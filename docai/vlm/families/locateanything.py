"""LocateAnything (NVIDIA 2026, arXiv:2605.27365): MoonViT (arXiv:2504.07491) and Qwen2.5, which answers with places."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rename, Reshape, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.axial import AxialRope
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families import Family
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.families.nested import image_token, vision_config
from docai.vlm.images import locate_images
from docai.vlm.prompt import Between, PromptSpec
from docai.vlm.spec import ModelSpec

# What the published code knows of Qwen2.5-3B and of MoonViT-SO-400M.
_TEXT = {
    "vocab_size": 152_681, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
    "num_attention_heads": 16, "num_key_value_heads": 2, "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
    "rope_theta": 1e6, "tie_word_embeddings": True,
}  # fmt: skip
_VISION = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
    "patch_size": 14, "num_channels": 3, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
    "merge_kernel_size": [2, 2],
}  # fmt: skip
_EPS = 1e-5  # of all norms but the decoder's; in no config
_TURNS = (
    "{% for message in messages %}{% if loop.first and message.role != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message.role }}{{ '\\n' }}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>{{ '\\n' }}{% endfor %}"
    "<|im_start|>assistant{{ '\\n' }}"
)


def spec(config: Config) -> ModelSpec:
    decoder = decoder_spec(config.section("text_config", _TEXT), "qwen2")
    tower = moonvit_spec(vision_config(config).with_defaults(_VISION))
    merger = MergerSpec(
        tower.hidden, decoder.dims, tower.merge**2, norm_eps=_EPS, norm_joined=True, hidden=decoder.dims
    )
    return ModelSpec(decoder, tower, merger, image_token(config, 151_665))


def moonvit_spec(vision: Config) -> PackedVitSpec:
    """MoonViT as a vision_config says."""
    down, across = vision["merge_kernel_size"]
    rows, columns = vision["init_pos_emb_height"], vision["init_pos_emb_width"]
    if down != across or rows != columns:
        raise CheckpointError(
            "config.json, vision_config: expected squares; got merge_kernel_size "
            f"{down} x {across} and positions {rows} x {columns}"
        )
    return PackedVitSpec(
        vision["hidden_size"],
        vision["num_hidden_layers"],
        vision["num_attention_heads"],
        MlpSpec(vision["intermediate_size"], "gelu_tanh", gated=False, bias=True),
        vision["patch_size"],
        frames=1,
        channels=vision["num_channels"],
        merge=down,
        norm_eps=_EPS,
        patch_bias=True,
        rope=AxialRope(alternating=True),
        positions=rows,
        resampling="bicubic",
        post_norm=True,
    )


# Names of the published files, in those of mlx-vlm.
_PUBLISHED = renames(
    {
        "vision_model.encoder.blocks.{i}.{x:wqkv|wo}.{part}": "vision_tower.blocks.{i}.attn.{x}.{part}",
        "vision_model.encoder.{rest}": "vision_tower.{rest}",
        "vision_model.{rest}": "vision_tower.{rest}",
        "mlp1.0.{part}": "multi_modal_projector.layer_norm.{part}",
        "mlp1.1.{part}": "multi_modal_projector.linear_1.{part}",
        "mlp1.3.{part}": "multi_modal_projector.linear_2.{part}",
    }
)


def rules(spec: ModelSpec, *, channels_last: bool = False) -> tuple[Rule, ...]:
    assert isinstance(spec.vision, PackedVitSpec), "there is no LocateAnything without its tower"
    patch, block, ours = "vision_tower.patch_embed.", "vision_tower.blocks.{i}.", "vision.blocks.{i}."
    return (
        *_PUBLISHED,
        *((Transpose(f"{patch}proj.weight", (0, 3, 1, 2)),) if channels_last else ()),
        Reshape(f"{patch}proj.weight", (0, spec.vision.channels, 0, 0)),  # refuses one whose channels lie elsewhere
        Reshape(f"{patch}proj.weight", (0, -1)),  # a convolution over whole patches is a matrix
        Rename(f"{patch}proj.{{part}}", "vision.patch.{part}"),
        Reshape(f"{patch}pos_emb.weight", (-1, spec.vision.hidden)),
        Rename(f"{patch}pos_emb.weight", "vision.positions.weight"),
        Split(f"{block}attn.wqkv.{{part}}", tuple(f"{ours}attn.{x}.{{part}}" for x in "qkv")),
        *renames(
            {
                "norm0.{part}": "norm1.{part}",
                "norm1.{part}": "norm2.{part}",
                "attn.wo.{part}": "attn.o.{part}",
                "mlp.fc0.{part}": "mlp.up.{part}",
                "mlp.fc1.{part}": "mlp.down.{part}",
            },
            block,
            ours,
        ),
        Rename("vision_tower.final_layernorm.{part}", "vision.post_norm.{part}"),
        *renames(
            {"layer_norm.{part}": "norm.{part}", "linear_1.{part}": "up.{part}", "linear_2.{part}": "down.{part}"},
            "multi_modal_projector.",
            "connector.merge.",
        ),
        *decoder_rules(spec.decoder, "language_model.model.", "language_model.lm_head."),
    )


FAMILY = Family(
    "locateanything",
    ("locateanything",),
    spec,
    {"hf": rules, "mlx": partial(rules, channels_last=True)},
    PromptSpec(
        placeholder="<image-1>",
        written=r"<image-\d+>",
        token="<IMG_CONTEXT>",
        image="<image-1>",
        template=_TURNS,
        expand=Between("<img>", "</img>"),
    ),
    locate_images(),
)
