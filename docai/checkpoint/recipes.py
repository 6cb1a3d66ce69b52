"""Short names of models, and the families that are still to come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a short name stands for: a repo on the hub, as `org/name`."""

    repo: str
    about: str


RECIPES: dict[str, Recipe] = {
    "aya-vision": Recipe("CohereForAI/aya-vision-8b", "Aya Vision, 8B"),
    "bunny": Recipe("BAAI/Bunny-Llama-3-8B-V", "Bunny on Llama 3, 8B"),
    "compass": Recipe("CohereLabs/North-Micro-Vision-Instruct", "Cohere Compass (North Micro Vision)"),
    "falcon-ocr": Recipe("tiiuae/Falcon-OCR", "Falcon-OCR, reads regions of documents, 0.3B"),
    "florence-2": Recipe("florence-community/Florence-2-base-ft", "Florence-2, captions, places and text, 0.2B"),
    "gemma3": Recipe("google/gemma-3-4b-it", "Gemma 3, 4B"),
    "gemma4": Recipe("google/gemma-4-e2b-it", "Gemma 4, E2B"),
    "gemma4-26b": Recipe("google/gemma-4-26B-A4B-it", "Gemma 4, mixture of experts, 26B"),
    "gemma4-unified": Recipe("google/gemma-4-12B-it", "Gemma 4 Unified, without a tower, 12B"),
    "got-ocr": Recipe("stepfun-ai/GOT-OCR2_0", "GOT-OCR 2.0, reads pages as text or LaTeX, 0.6B"),
    "kimi-k2.5": Recipe("moonshotai/Kimi-K2.5", "Kimi K2.5, mixture of experts, 1T"),
    "kimi-vl": Recipe("moonshotai/Kimi-VL-A3B-Instruct", "Kimi-VL, mixture of experts, 16B"),
    "kimi-vl-thinking": Recipe("moonshotai/Kimi-VL-A3B-Thinking-2506", "Kimi-VL that thinks first, 16B"),
    "lfm2-vl": Recipe("LiquidAI/LFM2-VL-1.6B", "LFM2-VL, 1.6B"),
    "llava": Recipe("llava-hf/llava-1.5-7b-hf", "LLaVA 1.5, 7B"),
    "llava-next": Recipe("llava-hf/llava-v1.6-mistral-7b-hf", "LLaVA 1.6 on Mistral, 7B"),
    "llm-jp-vl": Recipe("llm-jp/llm-jp-4-vl-9B-beta", "LLM-jp-4-VL, 9B"),
    "jagle-vl": Recipe("llm-jp/Jagle-VL-2.2B-Jagle-FineVision", "Jagle-VL (LLM-jp-VL on Qwen3), 2.2B"),
    "locate-anything": Recipe("nvidia/LocateAnything-3B", "LocateAnything, finds things by their names, 3B"),
    "mage-vl": Recipe("microsoft/Mage-VL", "Mage-VL, 4B"),
    "minicpm-v": Recipe("openbmb/MiniCPM-V-4.6", "MiniCPM-V 4.6, 1.3B"),
    "mistral3": Recipe("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "Mistral Small 3.1, 24B"),
    "nanollava": Recipe("mlx-community/nanoLLaVA-1.5-8bit", "nanoLLaVA 1.5 (Bunny on Qwen), 1B, 8 bit"),
    "nemotron-parse": Recipe("nvidia/NVIDIA-Nemotron-Parse-2.0", "Nemotron-Parse, whole pages at once, 0.9B"),
    "paligemma": Recipe("google/paligemma-3b-pt-224", "PaliGemma, 3B"),
    "paligemma2": Recipe("google/paligemma2-3b-mix-448", "PaliGemma 2, 3B"),
    "phi3.5-vision": Recipe("microsoft/Phi-3.5-vision-instruct", "Phi-3.5 Vision, 4B"),
    "phi4-vision": Recipe("microsoft/Phi-4-reasoning-vision-15B", "Phi-4-reasoning-vision, 15B"),
    "pp-doclayout-v3": Recipe("PaddlePaddle/PP-DocLayoutV3_safetensors", "PP-DocLayoutV3, layout with reading order"),
    "pixtral": Recipe("mistral-labs/pixtral-12b", "Pixtral, 12B"),
    "qwen2-vl": Recipe("mlx-community/Qwen2-VL-2B-Instruct-4bit", "Qwen2-VL, 2B, 4 bit"),
    "qwen2.5-vl": Recipe("mlx-community/Qwen2.5-VL-3B-Instruct-4bit", "Qwen2.5-VL, 3B, 4 bit"),
    "qwen2.5-vl-7b": Recipe("mlx-community/Qwen2.5-VL-7B-Instruct-4bit", "Qwen2.5-VL, 7B, 4 bit"),
    "qwen3-vl": Recipe("Qwen/Qwen3-VL-4B-Instruct", "Qwen3-VL, 4B"),
    "qwen3-vl-30b": Recipe("Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen3-VL, mixture of experts, 30B"),
    "qwen3": Recipe("Qwen/Qwen3-4B", "Qwen3, text only, 4B"),
    "qwen3.5": Recipe("Qwen/Qwen3.5-9B", "Qwen3.5, 9B"),
    "qwen3.5-27b": Recipe("Qwen/Qwen3.5-27B", "Qwen3.5, 27B"),
    "qwen3.5-35b": Recipe("Qwen/Qwen3.5-35B-A3B", "Qwen3.5, mixture of experts, 35B"),
    "rt-detr-v2": Recipe("docling-project/docling-layout-heron", "Docling's heron (RT-DETRv2), layout"),
    "youtu-vl": Recipe("tencent/Youtu-VL-4B-Instruct", "Youtu-VL, 4B"),
    "smollm2": Recipe("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2 (Llama), text only, 135M"),
}

# Families that docai does not read yet, by name, with the model_types that their checkpoints carry.
LATER: dict[str, tuple[str, ...]] = {
    "DiffusionGemma": ("diffusion_gemma",),
    "Gemma 3n": ("gemma3n",),
    "Inkling": ("inkling_mm_model",),
    "Jina VLM": ("jina_vlm", "jvlm"),
    "Kimi K3": ("kimi_k3",),
    "Llama 4": ("llama4",),
    "MiniCPM-o": ("minicpmo",),
    "Molmo 2": ("molmo2", "molmo_point"),
    "Moondream 3": ("moondream3",),
    "Muse Glimmer": ("muse_glimmer",),
    "Nemotron H Nano Omni": ("nemotron_h_omni", "NemotronH_Nano_Omni_Reasoning_V3"),
    "Phi-4 multimodal": ("phi4mm", "phi4_multimodal"),
    "Qwen3.8-Flash-Next": ("qwen4_exp",),
}


def later_family(model_type: object) -> str | None:
    """The family, of those still to come, that a model_type belongs to."""
    return next((name for name, types in LATER.items() if model_type in types), None)
