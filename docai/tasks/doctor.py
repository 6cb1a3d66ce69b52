"""`docai doctor`: versions, engines and limits, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
from dataclasses import asdict
from typing import Any

from docai import __version__
from docai.ocr.tesseract import installed_languages
from docai.types import Limits

_PACKAGES = (
    "pypdfium2",
    "pillow",
    "numpy",
    "shapely",
    "rapidocr",
    "onnxruntime",
    "opencv-python-headless",
    "orjson",
    "typer",
)
_OPTIONAL = {
    "pillow-heif": "HEIC images: pip install 'docai[heic]'",
    "rapidfuzz": "docai eval: pip install 'docai[eval]'",
    "apted": "docai eval: pip install 'docai[eval]'",
    "lxml": "docai eval: pip install 'docai[eval]'",
}


def findings() -> dict[str, Any]:
    """What there is to tell, as plain values."""
    return {
        "docai": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "optional": {name: _version(name) or f"missing ({use})" for name, use in _OPTIONAL.items()},
        "engines": {"embedded": _embedded(), "tesseract": _tesseract()},
        "limits": asdict(Limits()),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _embedded() -> str:
    missing = [name for name in ("rapidocr", "onnxruntime", "cv2") if importlib.util.find_spec(name) is None]
    return f"missing: {', '.join(missing)}" if missing else "ready (models come with rapidocr)"


def _tesseract() -> str:
    if shutil.which("tesseract") is None:
        return "missing (a second engine for more scripts; install tesseract-ocr and its language packs)"
    return f"ready ({', '.join(installed_languages())})"


def report_json() -> str:
    """One JSON object."""
    return json.dumps(findings(), ensure_ascii=False)


def report() -> str:
    """Lines of `name: value`."""
    return "\n".join(_lines(findings(), ""))


def _lines(values: dict[str, Any], indent: str) -> list[str]:
    out = []
    for name, value in values.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        else:
            out.append(f"{indent}{name}: {'missing' if value is None else value}")
    return out
