"""PP-DocLayoutV3 of PaddleOCR: RT-DETR over HGNetV2, with masks and reading order."""

from __future__ import annotations

from math import log2

from docai.checkpoint.config import Config
from docai.checkpoint.dialect import Drop, Rename, Rule, Transpose
from docai.errors import CheckpointError
from docai.layout import detr
from docai.layout.families import LayoutFamily
from docai.layout.pixels import PageImages
from docai.layout.spec import DetectorSpec
from docai.layout.suppress import PADDLE
from docai.nn.prototypes import MaskSpec

# What its configuration class fills in beyond RT-DETR's.
_DEFAULTS = {
    "mask_feature_channels": [64, 64], "num_prototypes": 32, "x4_feat_dim": 128, "mask_enhanced": True,
    "global_pointer_head_size": 64,
}  # fmt: skip


def spec(config: Config) -> DetectorSpec:
    said = detr.settings(config)
    more = config.with_defaults(_DEFAULTS)
    hidden, outputs = more["mask_feature_channels"]
    found = DetectorSpec(
        detr.backbone(said, "hgnet_v2"),
        tuple(said["encoder_in_channels"]),
        detr.encoder(said),
        tuple(said["decoder_in_channels"]),
        detr.queries(said, detr.classes_of(said), shared=True, normed=True),
        masks=MaskSpec(
            said["encoder_hidden_dim"],
            hidden,
            outputs,
            more["num_prototypes"],
            more["x4_feat_dim"],
            _doublings(said.get("feature_strides", said["feat_strides"])),
        ),
        boxes_from_masks=more["mask_enhanced"],
        order=more["global_pointer_head_size"],
    )
    return detr.check_channels(found)


def _doublings(strides: list[int]) -> tuple[int, ...]:
    """How often each map is doubled to be as large as the finest."""
    found = tuple(int(log2(stride / strides[0])) for stride in strides)
    if [strides[0] << times for times in found] != list(strides) or sorted(found) != list(found):
        raise CheckpointError(f"config.json: expected strides that double, finest first; got {strides}")
    return found


def heads(spec: DetectorSpec) -> tuple[Rule, ...]:
    """All layers share their heads with those that choose queries. Only the last layer's order is used."""
    last = spec.queries.layers - 1
    return (
        *detr.tied("decoder.class_embed", "enc_score_head"),
        *detr.tied("decoder.bbox_embed", "enc_bbox_head"),
        Rename("decoder.class_embed.{part}", "decoder.score.{part}"),
        Rename("decoder.bbox_embed.layers.{i}.{part}", "decoder.boxes.0.layers.{i}.{part}"),
        *((Drop("enc_bbox_head.{rest}"),) if spec.boxes_from_masks else ()),
        Rename("decoder_norm.{part}", "decoder.last_norm.{part}"),
        Rename(f"decoder_order_head.{last}.{{part}}", "order.project.{part}"),
        Drop("decoder_order_head.{i}.{part}"),
        Rename("decoder_global_pointer.dense.{part}", "order.pair.{part}"),
        Rename("mask_query_head.layers.{i}.{part}", "masks.query.layers.{i}.{part}"),
        Rename("encoder.mask_feature_head.output_conv.{part}", "masks.fuse.{part}"),
        Rename("encoder.encoder_mask_lateral.{part}", "masks.fine.{part}"),
        Rename("encoder.encoder_mask_output.base_conv.{part}", "masks.mix.{part}"),
        *(
            Rename(  # what doubles a map counts as a layer there
                f"encoder.mask_feature_head.scale_heads.{{i}}.layers.{2 * number}.{{part}}",
                f"masks.maps.{{i}}.layers.{number}.{{part}}",
            )
            for number in range(8)
        ),
    )


_OUT = "encoder.encoder_mask_output.conv"  # the one convolution without a norm
_FIRST: dict[str, tuple[Rule, ...]] = {
    "transformers": (Transpose(f"{_OUT}.weight", (0, 2, 3, 1)), Rename(f"{_OUT}.{{part}}", "masks.out.{part}")),
    "mlx": (Rename(f"{_OUT}.{{part}}", "masks.out.{part}"),),
}

FAMILY = LayoutFamily(
    "PP-DocLayoutV3",
    ("pp_doclayout_v3",),
    spec,
    detr.dialects(_FIRST, heads),
    PageImages((800, 800), bicubic=True, antialias=False),
    PADDLE,
)
