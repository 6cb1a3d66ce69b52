"""Makes pixels out of set pages: a flatbed scan of a PDF page, and a photograph of a receipt."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pypdfium2
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from source.fonts import FONTS

Pixels = NDArray[np.uint8]
SKEW = 1.5  # degrees clockwise
DPI = 200
MONO = "truetype/liberation/LiberationMono-Regular.ttf"
MONO_BOLD = "truetype/liberation/LiberationMono-Bold.ttf"

# Left part, right part, and whether it is printed large and bold. A line without a right part is centred.
RECEIPT = (
    ("WICK AND LEDGER", "", True),
    ("Ship's stores since yesterday", "", False),
    ("12 Sample Quay, Port Example", "", False),
    ("", "", False),
    ("Receipt 00417", "2024-03-09 14:32", False),
    ("-", "", False),
    ("2 x Lamp oil, 1 l", "7.80", False),
    ("1 x Wick, cotton", "2.45", False),
    ("3 x Pencil, soft", "3.60", False),
    ("1 x Log book, ruled", "14.90", False),
    ("1 x Rope, 5 m", "6.25", False),
    ("-", "", False),
    ("TOTAL EUR", "35.00", True),
    ("Cash", "40.00", False),
    ("Change", "5.00", False),
    ("VAT 20 % included", "5.83", False),
    ("-", "", False),
    ("Thank you.", "", False),
    ("Come back at low water.", "", False),
)


def scan(pdf: bytes) -> bytes:
    """The first page as a grey scan: turned a little, unevenly lit, blurred, noisy."""
    page = pypdfium2.PdfDocument(pdf)[0].render(scale=DPI / 72, grayscale=True).to_numpy()
    page = page[..., 0] if page.ndim == 3 else page
    height, width = page.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), -SKEW, 1.0)
    page = cv2.warpAffine(page, turn, (width, height), flags=cv2.INTER_AREA, borderValue=255)
    page = cv2.GaussianBlur(page, (0, 0), 0.7).astype(np.float32)
    light = np.linspace(236, 248, width, dtype=np.float32)[None, :]
    noisy = page * light / 255 + np.random.default_rng(11).normal(0, 5, page.shape)
    return jpeg(noisy, quality=48)


def jpeg(pixels: NDArray[np.floating], quality: int) -> bytes:
    out = io.BytesIO()
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    image.save(out, "JPEG", quality=quality, optimize=True, dpi=(DPI, DPI))
    return out.getvalue()


def receipt() -> tuple[bytes, str]:
    """The photograph and its expected text."""
    lines = [f"{left} {right}".strip() for left, right, _ in RECEIPT if left not in ("", "-")]
    return jpeg(photograph(printed()), quality=72), "\n".join(lines) + "\n"


def printed() -> Pixels:
    """The slip of paper, straight from the printer."""
    image = Image.new("L", (560, 900), 244)
    draw = ImageDraw.Draw(image)
    y = 40
    for left, right, large in RECEIPT:
        font = ImageFont.truetype(str(FONTS / (MONO_BOLD if large else MONO)), 32 if large else 24)
        if left == "-":
            draw.text((30, y), "-" * 35, fill=60, font=font)
        elif right:
            draw.text((30, y), left, fill=40, font=font)
            draw.text((530, y), right, fill=40, font=font, anchor="ra")
        else:
            draw.text((280, y), left, fill=40, font=font, anchor="ma")
        y += 52 if large else 40
    return np.asarray(image)


def photograph(paper: Pixels) -> NDArray[np.floating]:
    """The slip on a table, seen at a slant under a lamp, out of a camera that is not quite in focus."""
    height, width = 1400, 960
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    grain = 12 * np.sin(x / 7 + 3 * np.sin(y / 160)) + 6 * np.sin(x / 2.3 + y / 90)
    table = np.stack([118 + grain, 84 + grain * 0.8, 58 + grain * 0.6], axis=-1)
    h, w = paper.shape
    corners = np.float32([[0, 0], [w, 0], [w, h], [0, h]])
    seen = np.float32([[190, 118], [792, 92], [868, 1262], [96, 1226]])
    warp = cv2.getPerspectiveTransform(corners, seen)
    slip = cv2.warpPerspective(paper, warp, (width, height), flags=cv2.INTER_LINEAR).astype(np.float32)
    mask = cv2.warpPerspective(np.full_like(paper, 255), warp, (width, height)).astype(np.float32)[..., None] / 255
    shadow = cv2.GaussianBlur(np.roll(mask[..., 0], (14, 10), (0, 1)), (0, 0), 12)[..., None]
    scene = table * (1 - 0.45 * shadow) * (1 - mask) + slip[..., None] * np.array([1.0, 0.985, 0.95]) * mask
    lamp = 1.08 - 0.5 * (((x - 300) / 1500) ** 2 + ((y - 350) / 1500) ** 2)
    scene = cv2.GaussianBlur(scene * lamp[..., None], (0, 0), 0.8)
    return scene + np.random.default_rng(7).normal(0, 3, scene.shape)
