"""Fonts of the samples: shaped by HarfBuzz, embedded as subsets by fontTools."""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import uharfbuzz as hb
from fontTools import subset
from fontTools.ttLib import TTFont

FONTS = Path("/usr/share/fonts")
logging.getLogger("fontTools.subset").setLevel(logging.ERROR)  # it warns of tables that it drops


@dataclass(frozen=True)
class Glyph:
    """One glyph of a shaped run; lengths in thousandths of the font size."""

    gid: int
    advance: float
    natural: float  # the advance that the font itself gives it
    dx: float = 0.0
    dy: float = 0.0


@dataclass(eq=False)
class Face:
    """A font file, and which of its glyphs were used for what text."""

    path: str
    index: int = 0
    used: dict[int, str] = field(default_factory=dict)

    @cached_property
    def file(self) -> TTFont:
        return TTFont(FONTS / self.path, fontNumber=self.index, lazy=True)

    @cached_property
    def hb(self) -> hb.Font:
        return hb.Font(hb.Face(hb.Blob.from_file_path(str(FONTS / self.path)), self.index))

    @property
    def name(self) -> str:
        return str(self.file["name"].getDebugName(6))

    @property
    def cff(self) -> bool:
        return "CFF " in self.file

    @cached_property
    def em(self) -> int:
        return int(self.file["head"].unitsPerEm)

    def natural(self, gid: int) -> float:
        return 1000 * self.file["hmtx"][self.file.getGlyphName(gid)][0] / self.em

    def shape(self, text: str, *, direction: str = "ltr", script: str = "", language: str = "en") -> list[Glyph]:
        """The glyphs of one run of text, in the order in which they are drawn."""
        buffer = hb.Buffer()
        buffer.add_str(text)
        buffer.guess_segment_properties()
        buffer.direction, buffer.language = direction, language
        if script:
            buffer.script = script
        hb.shape(self.hb, buffer, {"kern": True, "liga": True})
        self._remember(text, buffer)
        unit = 1000 / self.em
        along = [p.y_advance if direction == "ttb" else p.x_advance for p in buffer.glyph_positions]
        return [
            Glyph(info.codepoint, advance * unit, self.natural(info.codepoint), p.x_offset * unit, p.y_offset * unit)
            for info, p, advance in zip(buffer.glyph_infos, buffer.glyph_positions, along, strict=True)
        ]

    def _remember(self, text: str, buffer: hb.Buffer) -> None:
        """Note which characters each glyph stands for: those of its cluster."""
        starts = sorted({info.cluster for info in buffer.glyph_infos})
        ends = dict(zip(starts, [*starts[1:], len(text)], strict=True))
        seen: set[int] = set()
        for info in buffer.glyph_infos:
            first = info.cluster not in seen
            seen.add(info.cluster)
            self.used.setdefault(info.codepoint, text[info.cluster : ends[info.cluster]] if first else "")

    def subset(self) -> bytes:
        """The font program with the used glyphs only, under their own glyph numbers."""
        options = subset.Options(
            retain_gids=not self.cff, hinting=False, layout_features=[], name_IDs=[1, 2, 6], glyph_names=False
        )
        options.drop_tables += ["GSUB", "GPOS", "GDEF", "DSIG", "VORG", "BASE", "vhea", "vmtx"]
        font = TTFont(FONTS / self.path, fontNumber=self.index, recalcTimestamp=False)
        subsetter = subset.Subsetter(options)
        subsetter.populate(gids=[0, *self.used])
        subsetter.subset(font)
        out = io.BytesIO()
        font.save(out)
        if not self.cff:
            return out.getvalue()
        return bytes(TTFont(io.BytesIO(out.getvalue())).reader["CFF "])


SERIF = Face("truetype/liberation/LiberationSerif-Regular.ttf")
SERIF_BOLD = Face("truetype/liberation/LiberationSerif-Bold.ttf")
SERIF_ITALIC = Face("truetype/liberation/LiberationSerif-Italic.ttf")
SANS = Face("truetype/liberation/LiberationSans-Regular.ttf")
SANS_BOLD = Face("truetype/liberation/LiberationSans-Bold.ttf")
MATH = Face("truetype/dejavu/DejaVuMathTeXGyre.ttf")
NASKH = Face("truetype/noto/NotoNaskhArabic-Regular.ttf")
NASKH_BOLD = Face("truetype/noto/NotoNaskhArabic-Bold.ttf")
MINCHO = Face("opentype/noto/NotoSerifCJK-Regular.ttc")
MINCHO_BOLD = Face("opentype/noto/NotoSerifCJK-Bold.ttc")
