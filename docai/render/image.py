"""Image files through Pillow: every page as upright RGB. Runs in the decoding process."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, PngImagePlugin, UnidentifiedImageError, features

from docai.errors import InputError, LimitExceeded
from docai.render.colors import to_rgb
from docai.types import Limits

# Formats of pictures, and none that runs programs (EPS), holds data of another kind or is only known by name.
_FORMATS = (
    "AVIF", "BMP", "DIB", "GIF", "HEIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PSD", "QOI", "WEBP", "XBM",
    "DCX", "ICNS", "PCX", "PPM", "SGI", "SUN", "TGA", "TIFF", "XPM",
)  # fmt: skip
_PAGED = frozenset({"TIFF", "DCX"})  # formats whose frames are pages
_ANIMATED = frozenset({"GIF", "PNG", "WEBP", "AVIF", "HEIF", "MPO"})  # and those that may have more than one picture
_HEIF = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")  # brands, ISO/IEC 23008-12
_AVIF = (b"avif", b"avis")
_SUBFILE, _PHOTOMETRIC, _ORIENTATION = 254, 262, 274  # TIFF tags
_BROKEN = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    struct.error,
    zlib.error,
)

Image.MAX_IMAGE_PIXELS = None  # our own limit is checked before anything is decoded, with a message that helps
PngImagePlugin.MAX_TEXT_MEMORY = 4 << 20


class ImageFileSource:
    """An open image file. Raises InputError or LimitExceeded.

    The frames of a TIFF are its pages, without those that are only a smaller copy; of an animation the first is read.
    """

    kind = "image"

    def __init__(self, source: Path | bytes, password: str | None, limits: Limits) -> None:  # noqa: ARG002 - as PdfFile
        self.notes: list[str] = []
        self.metadata: dict[str, str] = {}
        self.outline: list[tuple[str, int, int | None]] = []
        self._source, self._limits = source, limits
        self._image = self._open()
        self._check_size()
        self._frames = self._pages() if self._image.format in _PAGED else [0]
        self._note_animation()
        self._decoded: tuple[int, NDArray[np.uint8], dict[str, Any]] | None = None

    @property
    def page_count(self) -> int:
        return len(self._frames)

    def close(self) -> None:
        self._image.close()

    def _open(self) -> Image.Image:
        try:
            return _open(self._source)
        except ValueError as error:  # a text chunk that unpacks to megabytes: read on without it
            with _lenient():
                image = _open(self._source)
            self.notes.append(f"a part of the image's metadata is left out ({error})")
            return image

    def _check_size(self) -> None:
        width, height = self._image.size
        if width * height > self._limits.max_pixels:
            raise LimitExceeded(
                f"image too large: {width} x {height} pixels exceed the limit of {self._limits.max_pixels};"
                " raise it with --max-pixels"
            )
        if width < 1 or height < 1:
            raise InputError("the image is empty: it has no pixels")

    def _pages(self) -> list[int]:
        """The frames that are pages. Raises LimitExceeded."""
        frames = []
        try:
            for number in self._seekable():
                smaller_copy = int(getattr(self._image, "tag_v2", {}).get(_SUBFILE, 0)) & 1
                if not smaller_copy or number == 0:
                    frames.append(number)
        except _BROKEN as error:
            self.notes.append(f"the file is damaged: pages after page {len(frames)} cannot be found ({error})")
        return frames or [0]

    def _seekable(self) -> Iterator[int]:
        number, most = 0, self._limits.max_pages
        while True:
            try:
                self._image.seek(number)
            except EOFError:
                return
            if most is not None and number >= most:
                raise LimitExceeded(f"more than {most} pages, which is the limit; raise it with --max-pages")
            yield number
            number += 1

    def _note_animation(self) -> None:
        frames = 1
        if self._image.format in _ANIMATED:
            with contextlib.suppress(*_BROKEN):
                frames = int(getattr(self._image, "n_frames", 1))
        if frames > 1:
            self.notes.append(
                f"{self._image.format} of {frames} frames (an animation or burst): only the first is read"
            )

    def page_size(self, index: int) -> tuple[float, float, float]:
        """(width, height, dots per inch or 0) in pixels, upright by EXIF."""
        self._seek(index)
        width, height = self._image.size
        if _orientation(self._image) >= 5:
            height, width = self.pixels(index, 0).shape[:2]
        return float(width), float(height), _dpi(self._image)

    def content(self, index: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """An image says nothing of its content; it is decoded here so that what is wrong with it is known."""
        self.pixels(index, 0)
        assert self._decoded is not None
        return self._decoded[2], {}

    def pixels(self, index: int, dpi: float) -> NDArray[np.uint8]:  # noqa: ARG002 - an image has its own resolution
        """A page as RGB (H, W, 3)."""
        if self._decoded is None or self._decoded[0] != index:
            self._decoded = None  # its memory is needed
            self._seek(index)
            self._check_size()
            self._decoded = (index, *self._decode(index))
        return self._decoded[1]

    def _seek(self, index: int) -> None:
        try:
            self._image.seek(self._frames[index])
        except _BROKEN as error:
            raise InputError(f"the page is corrupt: {error}") from error

    def _decode(self, index: int) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        broken: Exception | None = None
        try:
            self._image.load()
        except _BROKEN as error:
            self._load_what_is_there(index, error)
            broken = error
        inverted = getattr(self._image, "tag_v2", {}).get(_PHOTOMETRIC) == 0
        pixels = np.asarray(to_rgb(_upright(self._image), inverted=inverted), np.uint8)
        if self.page_count == 1:  # let go of Pillow's own copy
            self._image.close()
            self._image = self._reopened()
        if broken is None:
            return pixels, {}
        pixels, damage = _white_where_unread(pixels)
        return pixels, {"damage": damage, "notes": [f"the image is {damage} ({broken})"]}

    def _reopened(self) -> Image.Image:
        with _lenient():
            return _open(self._source)

    def _load_what_is_there(self, index: int, error: Exception) -> None:
        """Load the part of a truncated image that decodes."""
        with _lenient():
            try:
                self._image = _open(self._source)
                self._image.seek(self._frames[index])
                self._image.load()
            except _BROKEN:
                raise InputError(f"not a valid image: corrupt or truncated ({error})") from error

    def page_pdf(self, index: int) -> bytes:
        """A PDF of this one page."""
        buffer = io.BytesIO()
        Image.fromarray(self.pixels(index, 0)).save(buffer, "PDF", resolution=self.page_size(index)[2] or 72.0)
        return buffer.getvalue()


@contextlib.contextmanager
def _lenient() -> Iterator[None]:
    """Pillow takes what there is of a broken file."""
    ImageFile.LOAD_TRUNCATED_IMAGES = True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = False


def _open(source: Path | bytes) -> Image.Image:
    """The file's header. Raises InputError, or ValueError where a part that is no pixels is out of bounds."""
    head = _head(source)
    brand = head[8:12] if head[4:8] == b"ftyp" else b""
    if brand in _HEIF and not any(other in head for other in _AVIF):
        _register_heif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _identified(source)
    except UnidentifiedImageError as error:
        raise InputError(_unknown(brand)) from error
    except ValueError:
        raise
    except _BROKEN as error:
        raise InputError(f"not a valid image: corrupt or truncated ({error})") from error


def _identified(source: Path | bytes) -> Image.Image:
    """The image, by the few formats that are always at hand or by all of ours, which take time to load."""
    for load in (Image.preinit, Image.init):
        load()
        formats = [name for name in _FORMATS if name in Image.OPEN]
        try:
            return Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=formats)
        except UnidentifiedImageError:
            continue
    raise UnidentifiedImageError("none of our formats")


def _head(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:64]
    with source.open("rb") as file:
        return file.read(64)


def _register_heif() -> None:
    """Teach Pillow HEIC. Raises InputError where the extra is not installed."""
    try:
        import pillow_heif
    except ImportError:
        raise InputError("HEIC images are not supported by this installation: pip install 'docai[heic]'") from None
    pillow_heif.register_heif_opener()


def _unknown(brand: bytes) -> str:
    if brand in _AVIF and not features.check("avif"):
        return "AVIF images are not supported by this Pillow: pip install --upgrade pillow (11.3 or later)"
    return "no PDF, and not a valid image: corrupt, truncated or of an unknown format"


def _white_where_unread(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], str]:
    """A truncated image with the rows at its ends that are of one colour, where nothing was read, in white.

    It comes with a word on what is left of it. Raises InputError where that is nothing.
    """
    read = np.flatnonzero((pixels != pixels[:, :1]).any(axis=(1, 2)))
    if not len(read):
        raise InputError("not a valid image: truncated before the first of its pixels")
    whitened = np.full_like(pixels, 255)
    whitened[read[0] : read[-1] + 1] = pixels[read[0] : read[-1] + 1]
    rows = len(pixels)
    upper, lower = int(read[-1]) + 1, rows - int(read[0])
    if upper == lower == rows:  # progressive images are refined row by row, all over
        return whitened, f"truncated: its {rows} rows could be decoded only in part"
    part = f"upper {upper}" if upper <= lower else f"lower {lower}"  # BMP and turned images begin at the bottom
    return whitened, f"truncated: only the {part} of {rows} rows could be decoded"


def _orientation(image: Image.Image) -> int:
    with contextlib.suppress(*_BROKEN):
        return int(image.getexif().get(_ORIENTATION, 1))
    return 1


def _upright(image: Image.Image) -> Image.Image:
    with contextlib.suppress(*_BROKEN):
        return ImageOps.exif_transpose(image)
    return image


def _dpi(image: Image.Image) -> float:
    try:
        dpi = float(image.info.get("dpi", (0, 0))[0])
    except _BROKEN:
        return 0.0
    return dpi if 30 <= dpi <= 2400 else 0.0
