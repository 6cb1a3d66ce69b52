"""The image processors of the families, made from a checkpoint's preprocessor_config.json."""

from __future__ import annotations

from docai.preprocess.inputs import ImageInput, ImageProcessor

__all__ = ["ImageInput", "ImageProcessor"]
