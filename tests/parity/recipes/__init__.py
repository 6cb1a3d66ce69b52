"""Tiny checkpoints of every family: what their oracle is built from, and what it is asked.

`python tests/parity/make.py NAME...` runs the oracles (in an environment with the `oracle` extra) and writes
`cases/NAME.json` and `cases/NAME.npz`; the suite needs only those. Sizes are chosen so that mistakes show: image grids
are not square, the hidden size is not twice an expert's, sequences are longer than a sliding window.
"""

from __future__ import annotations

from tests.parity.recipes.any_size import ANY_SIZE
from tests.parity.recipes.documents import DOCUMENTS
from tests.parity.recipes.gemma4 import GEMMA_4
from tests.parity.recipes.gemma4_audio import GEMMA_4_AUDIO
from tests.parity.recipes.kinds import Recipe
from tests.parity.recipes.latent import LATENT
from tests.parity.recipes.minicpm import MINICPM
from tests.parity.recipes.only_mlx import ONLY_MLX
from tests.parity.recipes.qwen import QWEN_VL
from tests.parity.recipes.qwen3_5 import QWEN_3_5
from tests.parity.recipes.text import TEXTS
from tests.parity.recipes.towers import FIXED

RECIPES: tuple[Recipe, ...] = (
    *TEXTS,
    *QWEN_VL,
    *QWEN_3_5,
    *MINICPM,
    *FIXED,
    *ANY_SIZE,
    *LATENT,
    *ONLY_MLX,
    *DOCUMENTS,
    *GEMMA_4,
    *GEMMA_4_AUDIO,
)
