"""MoonViT (Moonshot AI 2025, arXiv:2504.07491), alone and over clips: configs as specs, names as ours.

The tower of Kimi-VL and LocateAnything. That of Kimi K2.5 sees some frames of a clip at once.
"""

from __future__ import annotations

from docai.checkpoint.dialect import Rename, Reshape, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.axial import AxialRope
from docai.nn.mlp import MlpSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.vlm.config import Config
from docai.vlm.connector import MergerSpec
from docai.vlm.families.towers import TOWER, as_matrix

EPS = 1e-5  # of all norms of the tower and behind it; in no config
# What the published code knows of MoonViT-SO-400M.
_VISION = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
    "patch_size": 14, "num_channels": 3, "pos_emb_height": 64, "pos_emb_width": 64, "merge_kernel_size": [2, 2],
    "hidden_act": "gelu_pytorch_tanh",
}  # fmt: skip
# Fields by what mlx-vlm, Kimi-VL and Kimi K2.5 call them; the last one is transformers' name.
_CALLED = {
    "hidden_size": ("embed_dim", "vt_hidden_size"),
    "intermediate_size": ("vt_intermediate_size",),
    "num_hidden_layers": ("depth", "vt_num_hidden_layers"),
    "num_attention_heads": ("num_heads", "vt_num_attention_heads"),
    "pos_emb_height": ("init_pos_emb_height",),
    "pos_emb_width": ("init_pos_emb_width",),
}


def moonvit_spec(vision: Config, *, clips: bool = False) -> PackedVitSpec:
    """MoonViT as a vision_config says. `clips`: the steps of one see each other, and are averaged."""
    vision = vision.with_defaults(_VISION)
    said = {name: _called(vision, name) for name in _CALLED}
    down, across = vision["merge_kernel_size"]
    rows, columns = said["pos_emb_height"], said["pos_emb_width"]
    if down != across or rows != columns:
        raise CheckpointError(
            "config.json, vision_config: expected squares; got merge_kernel_size "
            f"{down} x {across} and positions {rows} x {columns}"
        )
    hidden, heads = said["hidden_size"], said["num_attention_heads"]
    if type(heads) is not int or heads < 1 or hidden % (4 * heads):
        raise CheckpointError(f"config.json, vision_config: {heads!r} heads do not divide {hidden} by a multiple of 4")
    return PackedVitSpec(
        hidden,
        said["num_hidden_layers"],
        heads,
        MlpSpec(said["intermediate_size"], vision["hidden_act"], gated=False, bias=True),
        vision["patch_size"],
        frames=1,
        channels=vision["num_channels"],
        merge=down,
        norm_eps=EPS,
        patch_bias=True,
        rope=AxialRope(alternating=True),
        positions=rows,
        resampling="bicubic",
        post_norm=True,
        averaged=clips,
    )


def _called(vision: Config, name: str) -> int:
    """A number under whichever of its names a config has."""
    found: int = next((vision[other] for other in _CALLED[name] if vision.get(other) is not None), vision[name])
    return found


def kimi_merger(tower: PackedVitSpec, dims: int, eps: float = EPS) -> MergerSpec:
    """The projector of Kimi's models, which norms each row before blocks of them become one."""
    return MergerSpec(tower.hidden, dims, tower.merge**2, norm_eps=eps)


# From published names to those of mlx-vlm.
PUBLISHED = renames(
    {
        f"{TOWER}encoder.blocks.{{i}}.{{x:wqkv|wo}}.{{part}}": f"{TOWER}blocks.{{i}}.attn.{{x}}.{{part}}",
        f"{TOWER}encoder.{{rest}}": f"{TOWER}{{rest}}",
    }
)


def moonvit_rules(spec: PackedVitSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    """From mlx-vlm's names to ours. `channels_last`: MLX's convolutions."""
    patch, block, ours = f"{TOWER}patch_embed.", f"{TOWER}blocks.{{i}}.", "vision.blocks.{i}."
    return (
        *((Transpose(f"{patch}proj.weight", (0, 3, 1, 2)),) if channels_last else ()),
        *as_matrix(f"{patch}proj.weight", (0, spec.channels, 0, 0)),
        Rename(f"{patch}proj.{{part}}", "vision.patch.{part}"),
        Reshape(f"{patch}pos_emb.weight", (-1, spec.hidden)),
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
        Rename(f"{TOWER}final_layernorm.{{part}}", "vision.post_norm.{part}"),
    )
