"""The package as Python sees it: public names, what importing costs, and what may import what."""

from __future__ import annotations

import subprocess
import sys

import pytest

import docai
from tests.conftest import SAMPLES

HEAVY = ("numpy", "PIL", "cv2", "onnxruntime", "rapidocr", "pypdfium2", "shapely", "rich", "typer", "orjson")


def run_python(code: str) -> str:
    """What a fresh interpreter prints for `code`."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("name", docai.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(docai, name) is not None
    assert name in dir(docai)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        docai.nothing  # noqa: B018


def test_the_functions_stay_functions_once_their_packages_are_loaded() -> None:
    for _ in range(2):
        document = docai.ocr(SAMPLES / "invoice.pdf")
        assert "Invoice" in docai.export(document, "text")
        assert docai.detect(SAMPLES / "invoice.pdf")[0].regions


@pytest.mark.parametrize(
    "code",
    [
        "import docai.ocr.joining as m, docai; print(callable(docai.ocr), m.__name__)",
        "import docai; docai.ocr; import docai.ocr.joining as m; print(callable(docai.ocr), m.__name__)",
        "from docai import ocr; from docai.ocr import joining as m; print(callable(ocr), m.__name__)",
    ],
)
def test_a_task_and_the_package_of_its_name_live_together(code: str) -> None:
    assert run_python(code) == "True docai.ocr.joining"


@pytest.mark.parametrize(
    "names", ["docai", "docai.types, docai.errors, docai.geometry", "docai.tasks.options", "docai.cli"]
)
def test_importing_loads_nothing_heavy(names: str) -> None:
    assert run_python(f"import sys, {names}; print(*[m for m in {HEAVY!r} if m in sys.modules])") == ""


def test_the_package_is_typed() -> None:
    from importlib.resources import files

    assert files("docai").joinpath("py.typed").is_file()
