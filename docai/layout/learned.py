"""Detectors whose networks run on MLX: pages in batches, regions with scores, in reading order."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from docai.checkpoint.backend import require_mlx
from docai.checkpoint.checkpoint import Checkpoint, read_checkpoint
from docai.checkpoint.config import sensible
from docai.checkpoint.hub import cached, locate
from docai.errors import CheckpointError, UsageError
from docai.geometry import clip, corners, outlines
from docai.layout.decode import Finds, Outputs, Thresholds, decoded, masks_of
from docai.layout.detector import EMBEDDED, MODELS, Sheet, is_detector, label_named, plain_name
from docai.layout.embedded import flow_of
from docai.layout.families import LayoutFamily, labels_of
from docai.layout.masks import mask_outlines
from docai.layout.order import columns
from docai.layout.rows import Rect
from docai.layout.suppress import Suppression
from docai.types import Box, Label, Line, Page, PageContent, Point, Region

if TYPE_CHECKING:
    from docai.layout.network import Network
    from docai.layout.spec import DetectorSpec
    from docai.types import RGB

    Loaded = tuple[LayoutFamily, DetectorSpec, Network]

Order = Literal["layout", "plain"]
PREPARED = "preprocessor_config.json"
_DPI = 144
_LINE = 0.025  # of the width of all text, which a line is high on pages of usual proportions


@dataclass(frozen=True, slots=True)
class Settings:
    """How regions are chosen and ordered. None is what suits the detector.

    `threshold`: lowest score; `thresholds`: of single labels, ours or the detector's own. `overlap` and `nested` are
    put in for those of `suppress`. `order`: of detectors that give none: by the layout's own code, or from top to
    bottom and left to right. `batch`: pages looked at at once.
    """

    threshold: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    suppress: Suppression | None = None
    overlap: float | None = None
    nested: float | None = None
    order: Order = "layout"
    batch: int | None = None
    dpi: int | None = None


def open_detector(name: str, settings: Settings | None = None) -> LearnedDetector:
    """The detector of a folder, a repo that is in the cache, or a short name.

    Raises DependencyMissing in one line that says what to install or to pull, UsageError for a name that is none.
    """
    require_mlx()
    checkpoint, loaded = _loaded(name, checkpoint_folder(name))
    return LearnedDetector(checkpoint, settings, name=name, loaded=loaded)


@lru_cache(maxsize=2)
def _loaded(name: str, folder: Path) -> tuple[Checkpoint, Loaded]:
    """A checkpoint and its network, whose weights are read once, however often settings change."""
    from docai.layout.loading import load

    checkpoint = read_checkpoint(folder, name)
    return checkpoint, load(checkpoint)


def forget_networks() -> None:
    """Let go of the networks that are kept for the next detector."""
    _loaded.cache_clear()


def checkpoint_folder(name: str) -> Path:
    """Where the checkpoint of a detector is. Nothing is downloaded. Raises UsageError or CheckpointError."""
    if not is_detector(name):
        known = ", ".join((EMBEDDED, *MODELS))
        raise UsageError(f"detector: expected one of {known}, or the folder or repo id of a model; got {name!r}")
    place = locate(name)
    folder = place.path or cached(place)
    if folder is None:
        raise CheckpointError(f"layout detector {name} is not in the cache: run docai models pull {name}")
    return folder


class LearnedDetector:
    """A layout detector from a checkpoint."""

    reads = False

    def __init__(
        self, checkpoint: Checkpoint, settings: Settings | None = None, *, name: str = "", loaded: Loaded | None = None
    ) -> None:
        """`loaded`: what `docai.layout.loading.load` has made of the checkpoint, if it has.

        Raises DependencyMissing where MLX is, CheckpointError where the checkpoint is none of a detector.
        """
        from docai.checkpoint.backend import on_gpu
        from docai.layout.loading import load

        settings = settings or Settings()
        family, spec, self._network = loaded or load(checkpoint)
        self.name = name or checkpoint.name
        self._names = labels_of(checkpoint.config, spec.queries.classes)
        self._labels = labels_for(self._names)
        with sensible(checkpoint, PREPARED, "pictures"):
            self._images = family.images.said(checkpoint.json_file(PREPARED))
        general = family.threshold if settings.threshold is None else settings.threshold
        self.thresholds = Thresholds(general, self._single(settings.thresholds), family.strict)
        self.threshold = general
        self._suppress = _suppression(family.suppress if settings.suppress is None else settings.suppress, settings)
        self._order, self._dpi = settings.order, settings.dpi or _DPI
        self.batch = settings.batch or (8 if on_gpu() else 1)  # on a CPU more at once is no faster

    def _single(self, thresholds: Mapping[str, float]) -> dict[int, float]:
        """Thresholds by class: a class's own name counts before the label that it stands for."""
        said = {plain_name(name): score for name, score in thresholds.items()}
        found = {}
        for number, (name, label) in enumerate(zip(self._names, self._labels, strict=True)):
            for key in (plain_name(label.value), plain_name(name)):
                if key in said:
                    found[number] = said[key]
        return found

    def detect(self, page: Page, lines: Sequence[Line], content: PageContent) -> list[Region]:
        """See `Detector.detect`."""
        return self.detect_all([Sheet(page, lines, content)])[0]

    def detect_all(self, sheets: Sequence[Sheet]) -> list[list[Region]]:
        """See `Detector.detect_all`."""
        out: list[list[Region]] = []
        for start in range(0, len(sheets), self.batch):
            part = sheets[start : start + self.batch]
            pixels = [sheet.page.pixels(self._dpi) for sheet in part]
            found = self.outputs(pixels)
            out += [self.regions(*each) for each in zip(part, pixels, found, strict=True)]
        return out

    def outputs(self, pages: Sequence[RGB]) -> list[Outputs]:
        """What the network says of pages, all at once."""
        import mlx.core as mx

        found = self._network(mx.array(np.stack([self._images(page) for page in pages])))
        mx.eval(found.arrays)
        whole = [
            None if array is None else np.array(array.astype(mx.float32))
            for array in (found.logits, found.boxes, found.order, found.mixtures, found.prototypes)
        ]
        return [Outputs(*(None if array is None else array[at] for array in whole)) for at in range(len(pages))]  # type: ignore[arg-type]

    def regions(self, sheet: Sheet, pixels: RGB, outputs: Outputs) -> list[Region]:
        """The regions of a page, in its unit and in reading order."""
        finds = decoded(outputs, self.thresholds)
        regions = list(self._found(sheet.page, pixels, outputs, finds))
        kept = self._suppress(regions, sheet.page.box, sheet.page.width / pixels.shape[1])
        if finds.ranks is None:
            kept = [kept[at] for at in in_order(kept, self._order, sheet.lines)]
        return [replace(region, order=number) for number, region in enumerate(kept)]

    def _found(self, page: Page, pixels: RGB, outputs: Outputs, finds: Finds) -> Iterable[Region]:
        height, width = pixels.shape[:2]
        edges = finds.boxes * np.array([width, height, width, height], np.float32)
        masks = masks_of(outputs, finds.queries, self.thresholds.general)
        shapes = mask_outlines(edges, masks, (width, height)) if masks is not None else [None] * len(edges)
        scale = page.width / width, page.height / height
        for number, score, box, shape in zip(finds.classes, finds.scores, edges.tolist(), shapes, strict=True):
            place = clip(Box(box[0] * scale[0], box[1] * scale[1], box[2] * scale[0], box[3] * scale[1]), page.box)
            if place.area > 0:
                yield Region(
                    place,
                    self._labels[number],
                    float(score),
                    polygon=None if shape is None else _on_page(shape, scale, page, place),
                    name=self._names[number],
                )


def _suppression(usual: Suppression, settings: Settings) -> Suppression:
    """What is usual, but for what is set."""
    same = usual.same if settings.overlap is None else settings.overlap
    return replace(usual, same=same, nested=usual.nested if settings.nested is None else settings.nested)


def _on_page(points: Sequence[Point], scale: tuple[float, float], page: Page, box: Box) -> tuple[Point, ...]:
    """An outline in pixels in the page's unit, cut to the page; one that has no area is the box."""
    found = outlines([(x * scale[0], y * scale[1]) for x, y in points], page.box)
    return found[0] if found else corners(box)


def labels_for(names: Sequence[str]) -> tuple[Label, ...]:
    """Our labels for a detector's classes. Those that have none are warned about, and taken as text."""
    labels = [label_named(name) for name in names]
    unknown = [name for name, label in zip(names, labels, strict=True) if label is None]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        warnings.warn(f"labels {', '.join(unknown[:5])}{more} of the detector are taken as text", stacklevel=2)
    return tuple(label or Label.TEXT for label in labels)


def in_order(regions: Sequence[Region], order: Order, lines: Sequence[Line] = ()) -> list[int]:
    """The indices of regions in reading order, for detectors that give none. `lines`: the page's, where known."""
    if order == "plain":
        return sorted(range(len(regions)), key=lambda at: _from_top(regions[at]))
    flow = flow_of(lines)
    rects = [flow.rect(region.box) for region in regions]
    return [at for column in columns(rects, em=_em(rects, [flow.rect(line.box) for line in lines])) for at in column]


def _em(regions: Sequence[Rect], lines: Sequence[Rect]) -> float | None:
    """The height of a line: regions are paragraphs, whose own heights say little of it."""
    if not regions:
        return None
    heights = sorted(bottom - top for _, top, _, bottom in lines or regions)
    middle = heights[len(heights) // 2]
    return middle if lines else min(middle, _LINE * (max(r[2] for r in regions) - min(r[0] for r in regions)))


def _from_top(region: Region) -> tuple[float, float, str]:
    return region.box.t, region.box.l, region.label.value
