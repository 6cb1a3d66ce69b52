"""Numbers that make no layer are refused when a spec is made, before there are weights or a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from docai.nn.attention import AttentionSpec
from docai.nn.conformer import ConformerSpec
from docai.nn.delta import DeltaSpec
from docai.nn.mlp import MlpSpec
from docai.nn.moe import MoeSpec
from docai.nn.packed_vit import PackedVitSpec
from docai.nn.rope import RopeSpec
from docai.nn.sandwich_vit import SandwichVitSpec

HEADS = AttentionSpec(4, 2, 8, RopeSpec(8))
DELTA = DeltaSpec.of(4, 2, value_dim=6, key_dim=8, kernel=4)
EXPERTS = MoeSpec(8, 2, 16)
PACKED = PackedVitSpec(32, 3, 2, MlpSpec(48), 14)
SANDWICH = SandwichVitSpec(12, 2, 2, 8, 20, 16, 9)
TOWER = ConformerSpec(24, 2, 3, bins=16, out=20)


@pytest.mark.parametrize(
    ("spec", "changed", "message"),
    [
        (HEADS, {"heads": 3}, "3 heads of 8 numbers cannot share 2 of keys"),
        (HEADS, {"kv_heads": 0}, "4 heads of 8 numbers cannot share 0 of keys"),
        (HEADS, {"head_dim": 0}, "4 heads of 0 numbers"),
        (HEADS, {"rope": RopeSpec(7)}, "7 numbers of a head cannot be turned in pairs"),
        (HEADS, {"window": 0}, "0 tokens make no window"),
        (HEADS, {"window": 1.5}, r"1\.5 tokens make no window"),
        (DELTA, {"heads": 3}, "3 heads of 6 numbers cannot share 2 of keys"),
        (DELTA, {"key_dim": 0}, "keys of 0 numbers, mixed over 4 tokens"),
        (DELTA, {"kernel": 0}, "keys of 8 numbers, mixed over 0 tokens"),
        (EXPERTS, {"experts": 0}, "a token cannot have 2 of 0 experts"),
        (EXPERTS, {"top_k": 9}, "a token cannot have 9 of 8 experts"),
        (EXPERTS, {"top_k": 1.5}, r"whole numbers; got \(8, 1\.5, 1, 1\)"),
        (EXPERTS, {"groups": 3, "top_groups": 2}, "2 of 3 groups do not divide 8 experts"),
        (EXPERTS, {"groups": 2, "top_groups": 3}, "3 of 2 groups do not divide 8 experts"),
        (EXPERTS, {"groups": 8, "top_groups": 2}, "ranked by their best two experts; got groups of 1"),
        (EXPERTS, {"groups": 4, "top_groups": 1, "top_k": 3}, "a token cannot have 3 of 2 experts"),
        (PACKED, {"layers": 0}, "0 layers of 32 numbers in 2 heads"),
        (PACKED, {"heads": 3}, "make no tower"),
        (PACKED, {"merge": 0}, "blocks of 0 x 0"),
        (PACKED, {"heads": 16}, "2 numbers of a head cannot be turned"),
        (SANDWICH, {"layers": -1}, "-1 layers of 2 heads"),
        (SANDWICH, {"positions": 0}, "0 positions make no tower"),
        (SANDWICH, {"merge": 0}, "blocks of 0 x 0"),
        (SANDWICH, {"head_dim": 6}, "6 numbers of a head cannot be turned"),
        (TOWER, {"chunk": 0}, "chunks of 0 rows"),
        (TOWER, {"past": -1}, "make no tower"),
        (TOWER, {"ahead": 0.5}, "make no tower"),
        (TOWER, {"kernel": 0}, "make no tower"),
        (TOWER, {"dims": 27}, "27 numbers cannot be half sines and half cosines"),
    ],
)
def test_numbers_that_make_no_layer_are_refused(spec: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(spec, **changed)
