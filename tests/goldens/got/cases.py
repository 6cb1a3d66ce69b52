"""What GOT-OCR is asked, and about which pictures; make.py asks the reference, tests/test_got_ocr.py asks docai."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """`box` is in pixels of the first picture; sizes are (height, width)."""

    formatted: bool = False
    box: tuple[int, int, int, int] | None = None
    colour: str | None = None
    pages: bool = False
    crops: bool = False
    sizes: tuple[tuple[int, int], ...] = ((90, 70),)


CASES = {
    "plain": Asked(),
    "formatted": Asked(formatted=True),
    "box": Asked(box=(7, 9, 33, 88)),
    "box formatted": Asked(formatted=True, box=(0, 0, 70, 90)),
    "colour": Asked(colour="green"),
    "colour and box": Asked(formatted=True, colour="red", box=(10, 20, 30, 40)),
    "crops": Asked(crops=True, sizes=((64, 200),)),
    "crops formatted": Asked(formatted=True, crops=True, sizes=((64, 64),)),
    "pages": Asked(formatted=True, pages=True, sizes=((90, 70), (64, 64), (30, 200))),
    "pages and crops": Asked(pages=True, crops=True, sizes=((64, 200), (64, 64))),
}
PREP = {"size": {"height": 64, "width": 64}, "max_patches": 6}
