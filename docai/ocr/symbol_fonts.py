"""Private-use codes that well-known symbol fonts give to their signs, as the signs themselves.

Sources: Adobe's Symbol encoding (PDF 32000-1, annex D.5) and corporate-use list, Microsoft's chart of Wingdings.
"""

from __future__ import annotations

# Symbol, from 0x21 on; a space where the font has none.
_SYMBOL_LOW = "!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
# Symbol, from 0xA1 on.
_SYMBOL_HIGH = "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
_WINGDINGS = {
    0x22: "✂", 0x28: "☎", 0x29: "✆", 0x2A: "✉", 0x36: "⌛", 0x3F: "✍", 0x41: "✌", 0x46: "☞", 0x4A: "☺", 0x6C: "●",
    0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x70: "◻", 0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫", 0x75: "◆", 0x76: "❖",
    0x77: "⬥", 0x9E: "·", 0x9F: "•", 0xA0: "▪", 0xA1: "○", 0xA2: "⭕", 0xA4: "◉", 0xA5: "◎", 0xA7: "▪", 0xA8: "◻",
    0xAB: "★", 0xB2: "✧", 0xB6: "✰", 0xB7: "•", 0xD8: "➢", 0xDB: "⇦", 0xDC: "⇨", 0xDF: "←", 0xE0: "→", 0xE1: "↑",
    0xE2: "↓", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨", 0xF1: "⇧", 0xF2: "⇩", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_BULLETS = {code: _WINGDINGS[code] for code in (0x6C, 0x6E, 0x71, 0x75, 0x76, 0x77, 0xA7, 0xA8, 0xB7, 0xD8, 0xFC)}
# Pieces of tall brackets and a few single signs of Adobe's corporate-use area.
_ADOBE = {
    0xF6BE: "ȷ", 0xF6D9: "©", 0xF6DA: "®", 0xF6DB: "™", 0xF8E5: "‾", 0xF8E6: "⏐", 0xF8E7: "⎯", 0xF8E8: "®",
    0xF8E9: "©", 0xF8EA: "™", 0xF8EB: "⎛", 0xF8EC: "⎜", 0xF8ED: "⎝", 0xF8EE: "⎡", 0xF8EF: "⎢", 0xF8F0: "⎣",
    0xF8F1: "⎧", 0xF8F2: "⎨", 0xF8F3: "⎩", 0xF8F4: "⎪", 0xF8F5: "⎮", 0xF8F6: "⎞", 0xF8F7: "⎟", 0xF8F8: "⎠",
    0xF8F9: "⎤", 0xF8FA: "⎥", 0xF8FB: "⎦", 0xF8FC: "⎫", 0xF8FD: "⎬", 0xF8FE: "⎭",
}  # fmt: skip

# Brackets of the Hancom office suite's fonts.
_HANCOM = {0xF0852: "「", 0xF0853: "」", 0xF0854: "『", 0xF0855: "』"}
# TeX's fonts of large signs and of the AMS, by position in the font, which is what is left where they name no glyphs.
_CMEX = (
    "()[]⌊⌋⌈⌉{}⟨⟩|‖/\\()()[]⌊⌋⌈⌉{}⟨⟩/\\()[]⌊⌋⌈⌉{}⟨⟩/\\/\\⎛⎞⎡⎤⎣⎦⎢⎥⎧⎫⎩⎭⎨⎬⎪|"
    "⎝⎠⎜⎟⟨⟩⨆⨆∮∮⨀⨀⨁⨁⨂⨂∑∏∫⋃⋂⨄⋀⋁∑∏∫⋃⋂⨄⋀⋁∐∐^^^~~~[]⌊⌋⌈⌉{}√√√√√√"
)
_MSAM = "⊡⊞⊠□■⋅◇⧫↻↺⇌⇋⊟⊩⊪⊨↠↞⇇⇉⇈⇊↾⇂↿⇃↣↢⇆⇄↰↱"


def tex_sign(code: int, font: str) -> str:
    """The sign at a position of one of TeX's own fonts, or "" where it is not known."""
    name = font.lower()
    signs = _CMEX if name.startswith("cmex") else _MSAM if name.startswith("msam") else ""
    return signs[code] if code < len(signs) else ""


def symbol(code: int, font: str) -> str:
    """The sign of a private-use code in a font of this name, or "" where it is not known."""
    if code in _ADOBE or code in _HANCOM:
        return _ADOBE.get(code) or _HANCOM[code]
    if 0xF720 <= code <= 0xF7FF:  # small capitals and old-style figures, at 0xF700 + their Latin-1 code
        return chr(code - 0xF700).upper()
    if not 0xF020 <= code <= 0xF0FF:
        return ""
    code, name = code - 0xF000, font.lower()
    if "wingdings" in name:
        return _WINGDINGS.get(code, "")
    if "symbol" in name:
        return _adobe_symbol(code)
    return _BULLETS.get(code, "") if "dings" in name or code in (0xA7, 0xB7) else ""


def _adobe_symbol(code: int) -> str:
    if 0x21 <= code <= 0x7E:
        return _SYMBOL_LOW[code - 0x21]
    found = _SYMBOL_HIGH[code - 0xA1 : code - 0xA0] if 0xA1 <= code <= 0xFE else ""
    return found.strip()
