"""What the two layouts of GOT-OCR 2.0 share (Wei et al. 2024, arXiv:2409.01704): its parts and its conversation."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rename, Reshape, Rule, Split, Transpose, renames
from docai.errors import CheckpointError
from docai.nn.mlp import MlpSpec
from docai.nn.sam import SamSpec
from docai.vlm.config import Config
from docai.vlm.connector import ShrinkerSpec
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.got import asked
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

# What transformers' configuration classes know, and the original code.
_TEXT = {
    "vocab_size": 151_860, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24,
    "num_attention_heads": 16, "hidden_act": "silu", "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True, "rope_theta": 1e6, "sliding_window": 4096, "max_window_layers": 21,
}  # fmt: skip
_VISION = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "num_channels": 3, "image_size": 1024,
    "patch_size": 16, "hidden_act": "gelu", "layer_norm_eps": 1e-6, "mlp_dim": 3072, "output_channels": 256,
    "window_size": 14, "global_attn_indexes": [2, 5, 8, 11],
}  # fmt: skip
IMAGE_TOKEN = 151_859
NO_REPEAT = 20  # tokens in a row; the published code asks like this, and answers loop without it
ONE_PICTURE = "it reads one picture at a time"  # why it takes no video
TOWER, PROJECTOR = "vision_tower.", "multi_modal_projector."


def model_spec(text: Config, vision: Config, image_token: int) -> ModelSpec:
    """The model of two configs with the names of transformers."""
    decoder, tower = decoder_spec(text.with_defaults(_TEXT), "qwen2"), _sam_spec(vision.with_defaults(_VISION))
    return ModelSpec(decoder, tower, ShrinkerSpec(tower.out, decoder.dims), image_token)


def _sam_spec(vision: Config) -> SamSpec:
    off = [name for name in ("qkv_bias", "use_abs_pos", "use_rel_pos") if not vision.get(name, True)]
    if off:
        raise CheckpointError(f"config.json, vision_config: {', '.join(off)} cannot be off in a GOT-OCR")
    return SamSpec(
        vision["hidden_size"],
        vision["num_hidden_layers"],
        vision["num_attention_heads"],
        MlpSpec(vision["mlp_dim"], vision["hidden_act"], gated=False, bias=True),
        _side(vision["image_size"]),
        _side(vision["patch_size"]),
        vision["output_channels"],
        window=vision["window_size"],
        full_layers=tuple(vision["global_attn_indexes"]),
        channels=vision["num_channels"],
        norm_eps=vision["layer_norm_eps"],
    )


def _side(size: int | list[int]) -> int:
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) != 1:
        raise CheckpointError(f"config.json, vision_config: expected squares, got {size}")
    return sides.pop()


def rules(spec: ModelSpec, *, channels_last: bool) -> tuple[Rule, ...]:
    """From names that `converted` or `original` gave to ours. `channels_last`: MLX's convolutions."""
    block, ours = f"{TOWER}blocks.{{i}}.", "vision.blocks.{i}."
    patch, neck = f"{TOWER}patch_embed.proj.", f"{TOWER}neck."
    convolutions = (f"{patch}weight", f"{neck}{{name:conv1|conv2}}.weight", f"{TOWER}{{name:net_2|net_3}}.weight")
    return (
        *(() if channels_last else (Transpose(name, (0, 2, 3, 1)) for name in convolutions)),
        # a convolution over whole patches is a matrix; the first rule refuses one whose channels lie elsewhere
        Reshape(f"{patch}weight", (0, 0, 0, _sam(spec).channels)),
        *(Reshape(name, (0, -1)) for name in (f"{patch}weight", f"{neck}conv1.weight")),
        Rename(f"{patch}{{part}}", "vision.patch.{part}"),
        Reshape(f"{TOWER}pos_embed", (-1, _sam(spec).side, _sam(spec).hidden)),
        Rename(f"{TOWER}pos_embed", "vision.positions"),
        Split(f"{block}attn.qkv.{{part}}", tuple(f"{ours}attn.{x}.{{part}}" for x in "qkv")),
        *renames(
            {
                "{x:norm1|norm2}.{part}": "{x}.{part}",
                "attn.proj.{part}": "attn.o.{part}",
                "attn.rel_pos_h": "attn.rows",
                "attn.rel_pos_w": "attn.columns",
                "mlp.lin1.{part}": "mlp.up.{part}",
                "mlp.lin2.{part}": "mlp.down.{part}",
            },
            block,
            ours,
        ),
        *renames({"{name}.{part}": "{name}.{part}"}, neck, "vision.neck."),
        *renames({"net_2.{part}": "half.{part}", "net_3.{part}": "quarter.{part}"}, TOWER, "connector."),
        Rename(f"{PROJECTOR}{{part:weight|bias}}", "connector.up.{part}"),
        *decoder_rules(spec.decoder, "language_model.model.", "language_model.lm_head."),
    )


def _sam(spec: ModelSpec) -> SamSpec:
    assert isinstance(spec.vision, SamSpec), "there is no GOT-OCR without its tower"
    return spec.vision


# --- the conversation: no line break stands between turns, and whatever a system message says, this one counts

_SYSTEM = "You should follow the instructions carefully and explain your answers in detail."


def prompt_spec(*, indent: int = 0, spaced: bool = False) -> PromptSpec:
    """The conversation that it was taught.

    `indent`: the published code writes the system's sentence behind 8 spaces, by an accident of its source; what is
    known of the original's answers was had with them. `spaced`: see `docai.vlm.got`.
    """
    turns = (
        "{% for message in messages if message.role != 'system' %}"
        "<|im_start|>{{ message.role }}{{ '\\n' }}"
        "{% for part in message.content if part.type == 'image' %}{{ '<img>' if loop.first }}<imgpad>"
        "{{ '</img>\\n' if loop.last }}{% endfor %}"
        "{% for part in message.content if part.type != 'image' %}{{ part.text }}{% endfor %}<|im_end|>{% endfor %}"
    )
    return PromptSpec(
        placeholder="<imgpad>",
        token="<imgpad>",
        image="<img><imgpad></img>\n",
        template=f"<|im_start|>system\n{' ' * indent}{_SYSTEM}<|im_end|>{turns}<|im_start|>assistant{{{{ '\\n' }}}}",
        surround=False,
        fixed=True,
        stops=("<|im_end|>", "<|endoftext|>"),
        asked=partial(asked, spaced=spaced),
        most_images=1,
        pages=True,
    )
