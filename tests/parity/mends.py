"""Oracles that are wrong somewhere, put right before they are asked; each says what is wrong and why."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np


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

    Under Kimi-VL, it has another GELU than the published code, too, and other epsilons. The tower is Kimi K2.5's of
    transformers, which is the same for images; its pairs of turns are halves of a head.
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


def mend_gemma4_unified(model: Any) -> None:
    """transformers 5.24 lets the tokens of an image see each other in all layers, as Gemma 3 does, if it is called.

    Its `generate`, and both ways of its Gemma 4, do so in layers with a window only, and within it.
    """
    module = import_module(type(model).__module__)
    plain = module.create_masks_for_generate

    def masks(block_sequence_ids: Any = None, **said: Any) -> Any:
        if block_sequence_ids is None:
            return plain(**said)
        return module.create_masks_for_vision_model(block_sequence_ids=block_sequence_ids, **said)

    module.create_masks_for_generate = masks


MENDED: dict[str, Callable[[Any], None]] = {
    "AyaVisionForConditionalGeneration": mend_cohere_vision,
    "Cohere2VisionForConditionalGeneration": mend_cohere_vision,
    "Gemma4UnifiedForConditionalGeneration": mend_gemma4_unified,
    "falcon_ocr": mend_falcon_ocr,
    "llava_bunny": mend_llava_bunny,
    "phi3_v": mend_phi3_v,
    "phi4_siglip": mend_phi4_siglip,
    "kimi_vl": mend_locateanything,
    "locateanything": mend_locateanything,
    "qwen3_vl_moe": mend_qwen3_vl_moe,
}
