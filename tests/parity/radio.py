"""`python tests/parity/radio.py` asks transformers' RADIO, the second reference of Nemotron-Parse's tower.

The case is small enough to be one file. Needs the `oracle` extra; the suite needs only `cases/radio/radio.npz`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
FILE = HERE / "cases" / "radio" / "radio.npz"
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.weights import noise, tensor  # noqa: E402

SIDE, PICTURE, SEED = 8, (32, 24), 1  # of the table of positions, in patches of 4; height and width in pixels
CONFIG = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_ratio": 2.0, "patch_size": 4,
    "max_img_size": 4 * SIDE, "num_cls_tokens": 4, "num_registers": 4, "summary_idxs": [0, 1, 2],
    "norm_mean": [0.0, 0.0, 0.0], "norm_std": [1.0, 1.0, 1.0],
}  # fmt: skip
# Names of ours, in those of the reference.
NAMES = (
    (r"^patch\.", "embeddings.patch_projection."),
    (r"^prefix$", "embeddings.cls_register_token"),
    (r"^positions$", "embeddings.position_embedding"),
    (r"^blocks\.(\d+)\.attn\.(\w)\.", r"encoder.layer.\1.attention.\2_proj."),
    (r"^blocks\.(\d+)\.mlp\.up\.", r"encoder.layer.\1.mlp.fc1."),
    (r"^blocks\.(\d+)\.mlp\.down\.", r"encoder.layer.\1.mlp.fc2."),
    (r"^blocks\.", "encoder.layer."),
)


def picture() -> NDArray[np.float32]:
    """(1, H, W, 3)"""
    return noise("picture", (1, *PICTURE, 3), SEED)


def main() -> None:
    import torch
    from transformers import RadioConfig, RadioModel

    model = RadioModel(RadioConfig(**CONFIG)).float().eval()
    own = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    made = {name: tensor(name, value.shape, SEED) for name, value in own.items()}
    # it has no layer scale; a norm of pixels is the processor's
    made |= {n: np.ones_like(a) for n, a in made.items() if "layer_scale" in n or n.endswith("norm_std")}
    made |= {n: np.zeros_like(a) for n, a in made.items() if n.endswith("norm_mean")}
    model.load_state_dict({name: torch.from_numpy(value) for name, value in made.items()}, strict=False)
    with torch.no_grad():
        out = model(torch.from_numpy(np.ascontiguousarray(np.moveaxis(picture(), -1, 1))))
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, features=out["features"].numpy(), summary=out["summary"].numpy())


if __name__ == "__main__":
    main()
