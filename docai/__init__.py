"""docai: text, structure and answers out of PDFs, scans and photos, on your own machine.

>>> import docai
>>> document = docai.ocr("paper.pdf", pages="1-3")
>>> print(docai.export(document, "markdown"))
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from docai.version import __version__

if TYPE_CHECKING:
    from docai.errors import DocaiError
    from docai.export.formats import export
    from docai.tasks.caption import caption
    from docai.tasks.detect import detect
    from docai.tasks.ground import ground
    from docai.tasks.load import load
    from docai.tasks.ocr import ocr
    from docai.tasks.parse import parse
    from docai.tasks.video import video
    from docai.types import Block, Box, Document, Page, Region, Table

# Public name -> module; loaded when first used, so that `import docai` costs nothing.
_LAZY = {
    "ocr": "docai.tasks.ocr",
    "detect": "docai.tasks.detect",
    "export": "docai.export.formats",
    "caption": "docai.tasks.caption",
    "ground": "docai.tasks.ground",
    "parse": "docai.tasks.parse",
    "video": "docai.tasks.video",
    "load": "docai.tasks.load",
    "DocaiError": "docai.errors",
    "Block": "docai.types",
    "Box": "docai.types",
    "Document": "docai.types",
    "Page": "docai.types",
    "Region": "docai.types",
    "Table": "docai.types",
}

__all__ = [*_LAZY, "__version__"]


def _public(name: str) -> Any:
    return getattr(importlib.import_module(_LAZY[name]), name)


class _Callable(ModuleType):
    """A package that is called as the task of its name: `docai.ocr(...)`, beside the module `docai.ocr.reading`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _public(self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """This package. Python binds a subpackage here once it is imported; that must not hide the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LAZY and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'docai' has no attribute {name!r}")
    return importlib.import_module(f"docai.{name}") if name in ("ocr", "export") else _public(name)


def __dir__() -> list[str]:
    return sorted(__all__)
