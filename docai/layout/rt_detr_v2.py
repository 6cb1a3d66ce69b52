"""RT-DETR and RT-DETRv2 (Lv et al. 2024, arXiv:2407.17140), such as Docling's heron checkpoints."""

from __future__ import annotations

from docai.checkpoint.config import Config
from docai.checkpoint.dialect import Drop, Rename, Rule
from docai.checkpoint.folding import Copy
from docai.layout import detr
from docai.layout.families import LayoutFamily
from docai.layout.pixels import PageImages
from docai.layout.spec import DetectorSpec
from docai.layout.suppress import DOUBLES


def spec(config: Config) -> DetectorSpec:
    said = detr.settings(config)
    found = DetectorSpec(
        detr.backbone(said, "rt_detr_resnet"),
        tuple(said["encoder_in_channels"]),
        detr.encoder(said),
        tuple(said["decoder_in_channels"]),
        detr.queries(said, detr.classes_of(said)),
    )
    return detr.check_channels(found)


def heads(spec: DetectorSpec) -> tuple[Rule, ...]:
    """Each layer has its own heads. transformers writes those that are equal once, and all of them twice otherwise.

    Only the last layer's scores are used.
    """
    last = spec.queries.layers - 1
    rules: list[Rule] = []
    for name in ("class_embed", "bbox_embed"):
        rules.append(Copy(f"{name}.{{rest}}", f"decoder.{name}.{{rest}}"))
        rules += [
            Copy(f"decoder.{name}.0.{{rest}}", f"decoder.{name}.{layer}.{{rest}}") for layer in range(1, last + 1)
        ]
        rules.append(Drop(f"{name}.{{rest}}"))
    return (
        *rules,
        Rename(f"decoder.class_embed.{last}.{{part}}", "decoder.score.{part}"),
        Drop("decoder.class_embed.{i}.{part}"),
        Rename("decoder.bbox_embed.{i}.layers.{j}.{part}", "decoder.boxes.{i}.layers.{j}.{part}"),
    )


FAMILY = LayoutFamily(
    "RT-DETRv2",
    ("rt_detr_v2", "rt_detr"),
    spec,
    detr.dialects({}, heads),
    PageImages((640, 640)),
    DOUBLES,
    strict=True,
)
