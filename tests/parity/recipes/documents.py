"""Models that read documents: early fusion, SAM's tower, MoonViT."""

from __future__ import annotations

from tests.parity.recipes.kinds import Image, Recipe, Variant
from tests.parity.recipes.qwen import QWEN_2_TEXT
from tests.parity.recipes.text import WORDS
from tests.parity.recipes.towers import NEWER

# early fusion: a picture of 6 x 4 patches of 4 pixels, after its class token and 4 registers, before its end
FALCON = {
    "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "ffn_dim": 48, "vocab_size": 300,
    "norm_eps": 1e-5, "max_seq_len": 128, "rope_theta": 100.0, "spatial_patch_size": 4,
}  # fmt: skip
FALCON_PROMPT = (5, 6, 244, 245, 246, 247, 248, *(227,) * 24, 230, 7, 8, 9, 10)
PUBLISHED_FALCON = Variant(
    (
        (r"^language_model\.lm_head", "output"), (r"^language_model\.model\.", ""), ("embed_tokens", "tok_embeddings"),
        (r"\.self_attn\.", ".attention."), (r"\.mlp\.", ".feed_forward."),
    ),
    {"architectures": ["FalconOCRForCausalLM"], "model_type": "falcon_ocr", **FALCON}, drops="cos_1d|sin_1d",
    alternating=r"w13\.weight",
)  # fmt: skip

# SAM's tower: a picture of 16 x 16 patches in windows of 6, that is 18 x 18 with zeros
SAM_VIT = {
    "hidden_size": 32, "output_channels": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 64,
    "patch_size": 4, "window_size": 6, "global_attn_indexes": [1], "mlp_dim": 48,
}  # fmt: skip
GOT_TEXT = {
    **QWEN_2_TEXT, "tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
}  # fmt: skip
FLAT_GOT = {
    "architectures": ["GOTQwenForCausalLM"], "model_type": "GOT", "im_patch_token": 95, "im_start_token": 93,
    "im_end_token": 94, "use_im_start_end": True, "image_token_len": 256, "rope_theta": 1000.0, "rms_norm_eps": 1e-6,
    **{name: value for name, value in GOT_TEXT.items() if name != "rope_parameters"},
    "vision_config": {
        "img_size": 64, "patch_size": 4, "embed_dim": 32, "depth": 3, "num_heads": 2, "mlp_ratio": 1.5, "out_chans": 16,
        "out_dim": 64, "window_size": 6, "global_attn_indexes": [1],
    },
}  # fmt: skip
GOT_BLOCKS = (
    (r"^vision_tower\.layers\.(\d+)\.layer_norm", r"vision_tower.blocks.\1.norm"),
    (r"^vision_tower\.layers\.", "vision_tower.blocks."), (r"patch_embed\.projection", "patch_embed.proj"),
    (r"multi_modal_projector\.conv_upsampler1", "vision_tower.net_2"),
    (r"multi_modal_projector\.conv_upsampler2", "vision_tower.net_3"),
    (r"multi_modal_projector\.multimodal_projector", "multi_modal_projector"), (r"neck\.layer_norm", "neck.norm"),
)  # fmt: skip
GOT_ORIGINAL = (
    *GOT_BLOCKS, (r"neck\.conv1", "neck.0"), (r"neck\.norm1", "neck.1"), (r"neck\.conv2", "neck.2"),
    (r"neck\.norm2", "neck.3"), (r"^vision_tower\.", "model.vision_tower_high."),
    (r"^multi_modal_projector\.", "model.mm_projector_vary."), (r"^language_model\.model\.", "model."),
)  # fmt: skip
GOT = Recipe(
    "got_ocr2", "transformers:GotOcr2ForConditionalGeneration",
    {"text_config": {**GOT_TEXT, "model_type": "qwen2"}, "vision_config": SAM_VIT, "image_token_index": 95},
    (5, 6, 93, *(95,) * 16, 94, 7, 8, 9, 10, 11), (Image((1, 64, 64, 3), 16),), "pictures",
    variants={
        "newer": Variant(NEWER),
        "original": Variant(
            GOT_ORIGINAL, FLAT_GOT, {"lm_head.weight": "model.embed_tokens.weight"},
        ),
        "mlx": Variant((*GOT_BLOCKS, (r"neck\.", "")), FLAT_GOT, channels_last=True, mlx="got"),
        "mlx-neck": Variant(GOT_BLOCKS, FLAT_GOT, channels_last=True),
    },
)  # fmt: skip

# MoonViT: two images of different grids, whose positions are resampled from a table of 8 x 8
MOONVIT = {
    "model_type": "moonvit", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 2, "patch_size": 4, "init_pos_emb_height": 8, "init_pos_emb_width": 8,
    "merge_kernel_size": [2, 2],
}  # fmt: skip
LOCATE = {
    "model_type": "locateanything", "image_token_index": 95, "vision_config": MOONVIT,
    "text_config": {
        **{name: value for name, value in QWEN_2_TEXT.items() if name not in ("bos_token_id", "eos_token_id")},
        "model_type": "qwen2", "tie_word_embeddings": True, "rope_theta": 1000.0, "rms_norm_eps": 1e-6, "block_size": 6,
        "causal_attn": False,
    },
}  # fmt: skip
PUBLISHED_LOCATE = Variant(
    (
        (r"^vision_tower\.(blocks\.\d+\.)attn\.", r"vision_model.encoder.\1"),
        (r"^vision_tower\.(blocks|final_layernorm)", r"vision_model.encoder.\1"), (r"^vision_tower\.", "vision_model."),
        (r"^multi_modal_projector\.layer_norm", "mlp1.0"), (r"^multi_modal_projector\.linear_1", "mlp1.1"),
        (r"^multi_modal_projector\.linear_2", "mlp1.3"),
    ),
    {"architectures": ["LocateAnythingForConditionalGeneration"], **LOCATE},
    {"language_model.lm_head.weight": "language_model.model.embed_tokens.weight"}, channels_first=True,
)  # fmt: skip

DOCUMENTS = (
    Recipe(
        "falcon_ocr", "mlx_vlm:falcon_ocr", {"model_type": "falcon_ocr", **FALCON}, FALCON_PROMPT,
        (Image((24, 48), 24, (1, 6, 4)),), "falcon", variants={"published": PUBLISHED_FALCON},
    ),
    Recipe("falcon_ocr-text", "mlx_vlm:falcon_ocr", {"model_type": "falcon_ocr", **FALCON}, WORDS),
    GOT,
    Recipe(
        "locateanything", "mlx_vlm:locateanything", LOCATE,
        (5, 6, 93, *(95,) * 6, 94, 7, 8, 93, *(95,) * 10, 94, 9, 10, 11, 12),
        (Image((24, 48), 6, (1, 4, 6)), Image((40, 48), 10, (1, 10, 4))), "moonvit",
        variants={"published": PUBLISHED_LOCATE},
    ),
)  # fmt: skip
