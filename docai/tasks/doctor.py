"""`docai doctor`: versions, engines and limits, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docai.errors import DependencyMissing, ExitCode
from docai.types import Limits
from docai.version import __version__
from docai.writing import counted

_PACKAGES = (
    "pypdfium2",
    "pillow",
    "numpy",
    "rapidocr",
    "onnxruntime",
    "opencv-python-headless",
    "shapely",
    "orjson",
    "typer",
    "rich",
    "tokenizers",
    "jinja2",
    "huggingface_hub",
    "safetensors",
    "fastapi",
    "uvicorn",
)
_OPTIONAL = {
    "llguidance": "answers by a JSON schema: pip install 'docai[structured]'",
    "av": "videos: pip install 'docai[video]'",
    "pillow-heif": "HEIC images: pip install 'docai[heic]'",
    "rapidfuzz": "docai eval: pip install 'docai[eval]'",
    "apted": "docai eval: pip install 'docai[eval]'",
    "lxml": "docai eval: pip install 'docai[eval]'",
}
_FONT_FOLDERS = (
    "/usr/share/fonts",
    "/usr/local/share/fonts",
    "~/.local/share/fonts",
    "~/.fonts",
    "/System/Library/Fonts",
    "/Library/Fonts",
    "~/Library/Fonts",
)
_FONT_SUFFIXES = frozenset({".ttf", ".otf", ".ttc", ".otc", ".pfb"})


def findings() -> dict[str, Any]:
    """What there is to tell, as plain values; None is missing."""
    return {
        "docai": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "pdfium": _pdfium(),
        "optional": {name: _version(name) or f"missing ({use})" for name, use in _OPTIONAL.items()},
        "engines": {"embedded": _embedded(), "tesseract": _tesseract()},
        "models": _models(),
        "fonts": _fonts(),
        "limits": asdict(Limits()),
        "environment": sorted(name for name in os.environ if name.startswith("DOCAI_")),
    }


def exit_code(found: dict[str, Any]) -> ExitCode:
    """3 where a package is missing that docai does not work without."""
    return ExitCode.DEPENDENCY if None in found["packages"].values() else ExitCode.OK


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pdfium() -> str:
    """The version of the library itself, asked in a process of its own: it is no harm if that crashes."""
    code = "import pypdfium2; print(pypdfium2.PDFIUM_INFO)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[-1] if lines else f"does not load (exit code {done.returncode})"


def _embedded() -> str:
    missing = [name for name in ("rapidocr", "onnxruntime", "cv2") if importlib.util.find_spec(name) is None]
    return f"missing: {', '.join(missing)}" if missing else "ready (models come with rapidocr)"


def _models() -> dict[str, str]:
    """On what models are computed, and where they are kept."""
    from docai.checkpoint import backend

    cache = backend.cache_folder()
    kept = len(list(cache.glob("models--*"))) if cache.is_dir() else 0
    said = {"cache": f"{cache} ({kept} models)"}
    try:
        mx = backend.require_mlx()
        total, free = backend.in_bytes(backend.total_memory()), backend.in_bytes(backend.free_memory())
        return {
            "backend": f"MLX {mx.__version__}",
            "device": backend.device_name(),
            "memory": f"{total}, {free} free",
            "blas": backend.preload_blas() or _own_blas(on_gpu=backend.on_gpu()),
            **said,
        }
    except DependencyMissing as error:
        return {"backend": str(error), **said}


def _own_blas(*, on_gpu: bool) -> str:
    slow = sys.platform.startswith("linux") and not on_gpu
    return "MLX's own" + (", which is slow: install OpenBLAS (apt install libopenblas0-pthread)" if slow else "")


def _tesseract() -> str:
    if shutil.which("tesseract") is None:
        return "missing (a second engine for more scripts; install tesseract-ocr and its language packs)"
    try:
        from docai.ocr.tesseract import installed_languages

        return f"ready ({', '.join(installed_languages())})"
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        return f"does not work: {error}"


def _fonts() -> str:
    """Fonts of the system: PDFs that embed none are drawn with them."""
    files = (f for folder in _FONT_FOLDERS for f in Path(folder).expanduser().rglob("*"))
    count = sum(f.suffix.lower() in _FONT_SUFFIXES for f in files)
    return counted(count, "file") if count else "none found: text in fonts that a PDF does not embed may look wrong"


def report_json(found: dict[str, Any]) -> str:
    """One JSON object."""
    return json.dumps(found, ensure_ascii=False)


def report(found: dict[str, Any]) -> str:
    """Lines of `name: value`."""
    return "\n".join(_lines(found, ""))


def _lines(values: dict[str, Any], indent: str) -> list[str]:
    out = []
    for name, value in values.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        else:
            text = "missing" if value is None else ", ".join(value) or "-" if isinstance(value, list) else value
            out.append(f"{indent}{name}: {text}")
    return out
