"""Image files through Pillow: every frame as upright RGB. Runs in the decoding process."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageFile, ImageOps, PngImagePlugin, UnidentifiedImageError

from docai.errors import InputError, LimitExceeded
from docai.types import Limits

_MULTI_PAGE = frozenset({"TIFF", "MPO"})  # formats whose frames are pages; elsewhere they are an animation
_HEIF = (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftypmif1", b"ftypmsf1", b"ftypheim")
_MOST_FRAMES_PROBED = 10_000

Image.MAX_IMAGE_PIXELS = None  # our own limit is checked before anything is decoded, with a message that helps
PngImagePlugin.MAX_TEXT_MEMORY = 4 << 20


class ImageFileSource:
    """An open image file, a page per frame. Raises InputError or LimitExceeded."""

    kind = "image"

    def __init__(self, source: Path | bytes, password: str | None, limits: Limits) -> None:  # noqa: ARG002 - as PdfFile
        self.notes: list[str] = []
        self.metadata: dict[str, str] = {}
        self.outline: list[tuple[str, int, int | None]] = []
        self._limits = limits
        self._image = _open(source)
        self._check_size()
        self.page_count = self._count_pages()
        self._decoded: tuple[int, NDArray[np.uint8]] | None = None

    def close(self) -> None:
        self._image.close()

    def _check_size(self) -> None:
        width, height = self._image.size
        if width * height > self._limits.max_pixels:
            raise LimitExceeded(
                f"image too large: {width} x {height} pixels exceed the limit of {self._limits.max_pixels};"
                " raise it with --max-pixels"
            )
        if width < 1 or height < 1:
            raise InputError("the image is empty: it has no pixels")

    def _count_pages(self) -> int:
        frames = 1
        with contextlib.suppress(OSError, ValueError, SyntaxError, EOFError):
            frames = min(getattr(self._image, "n_frames", 1), _MOST_FRAMES_PROBED)
        if self._image.format not in _MULTI_PAGE:
            if frames > 1:
                self.notes.append(f"animated {self._image.format}: only the first of {frames} frames is read")
            return 1
        most = self._limits.max_pages
        if most is not None and frames > most:
            raise LimitExceeded(f"{frames} pages exceed the limit of {most}; raise it with --max-pages")
        return max(1, frames)

    def page_size(self, index: int) -> tuple[float, float, float]:
        """(width, height, dots per inch or 0) in pixels, upright by EXIF."""
        self._seek(index)
        width, height = self._image.size
        with contextlib.suppress(Exception):
            if self._image.getexif().get(0x0112, 1) >= 5:
                width, height = height, width
        return float(width), float(height), _dpi(self._image)

    def content(self, index: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """An image says nothing of its content; the pixels are decoded here so that their notes are known."""
        before = len(self.notes)
        self.pixels(index, 0)
        return {"notes": self.notes[before:]}, {}

    def pixels(self, index: int, dpi: float) -> NDArray[np.uint8]:  # noqa: ARG002 - an image has its own resolution
        """A frame as RGB (H, W, 3)."""
        if self._decoded is None or self._decoded[0] != index:
            self._seek(index)
            self._check_size()
            self._decoded = (index, self._decode())
        return self._decoded[1]

    def _seek(self, index: int) -> None:
        try:
            self._image.seek(index)
        except (EOFError, OSError, ValueError, SyntaxError) as error:
            raise InputError(f"page {index + 1} of the image is corrupt: {error}") from error

    def _decode(self) -> NDArray[np.uint8]:
        try:
            self._image.load()
        except (OSError, ValueError, SyntaxError, EOFError, IndexError) as error:
            self._load_what_is_there(error)
        upright = self._image
        with contextlib.suppress(Exception):
            upright = ImageOps.exif_transpose(self._image) or self._image
        return np.asarray(to_rgb(upright), np.uint8)

    def _load_what_is_there(self, error: Exception) -> None:
        """The part of a truncated image that decodes, with a note."""
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            self._image.load()
        except (OSError, ValueError, SyntaxError, EOFError, IndexError):
            raise InputError(f"not a valid image: corrupt or truncated ({error})") from error
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        self.notes.append(f"the image is truncated: only a part of it could be read ({error})")

    def page_pdf(self, index: int) -> bytes:
        """A PDF of this one frame."""
        buffer = io.BytesIO()
        Image.fromarray(self.pixels(index, 0)).save(buffer, "PDF", resolution=self.page_size(index)[2] or 72.0)
        return buffer.getvalue()


def _open(source: Path | bytes) -> Image.Image:
    _register_heif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Image.open(source if isinstance(source, Path) else io.BytesIO(source))
    except UnidentifiedImageError as error:
        raise InputError(_unknown(source)) from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise InputError(f"not a valid image: corrupt or truncated ({error})") from error


def _unknown(source: Path | bytes) -> str:
    head = source[:64] if isinstance(source, bytes) else source.open("rb").read(64)
    if any(brand in head for brand in _HEIF):
        return "HEIC images are not supported by this installation; run: pip install 'docai[heic]'"
    return "not a valid image: corrupt, truncated or of an unknown format"


def _register_heif() -> None:
    with contextlib.suppress(ImportError):
        import pillow_heif

        pillow_heif.register_heif_opener()


def _dpi(image: Image.Image) -> float:
    try:
        dpi = float(image.info.get("dpi", (0, 0))[0])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return 0.0
    return dpi if 30 <= dpi <= 2400 else 0.0


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode as RGB: deep grey levels are scaled, alpha lies on white, CMYK and Lab keep their colours."""
    if image.mode.startswith(("I", "F")):
        return _deep_grey(image)
    if image.mode == "LAB":
        return _from_lab(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _deep_grey(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float grey: black to the brightest level in use becomes 0..255, since scanners write 10 or
    12 bits into 16 and no file says so.
    """
    levels = np.nan_to_num(np.asarray(image, np.float32))
    black, white = min(float(levels.min(initial=0)), 0.0), float(levels.max(initial=0))
    scaled = (levels - black) * (255.0 / max(white - black, 1e-9))
    return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8)).convert("RGB")


def _from_lab(image: Image.Image) -> Image.Image:
    lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    transform = ImageCms.buildTransform(lab, srgb, "LAB", "RGB")
    return ImageCms.applyTransform(image, transform) or image.convert("RGB")


def turn(pixels: NDArray[np.uint8], rotation: int, skew: float) -> NDArray[np.uint8]:
    """Pixels turned clockwise by `rotation` (0/90/180/270), then back by `skew` degrees around the centre, on white."""
    if not rotation % 360 and not skew:
        return pixels
    import cv2  # only here: it takes longer to load than most pages to decode

    steps = {90: cv2.ROTATE_90_CLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_COUNTERCLOCKWISE}
    turned = cv2.rotate(pixels, steps[rotation % 360]) if rotation % 360 else pixels
    if skew:
        height, width = turned.shape[:2]
        centre = (width - 1) / 2, (height - 1) / 2  # of the middle pixel
        matrix = cv2.getRotationMatrix2D(centre, skew, 1.0)
        white = (255, 255, 255)
        turned = cv2.warpAffine(turned, matrix, (width, height), flags=cv2.INTER_CUBIC, borderValue=white)
    return np.ascontiguousarray(turned, np.uint8)
