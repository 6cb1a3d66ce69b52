"""Messages into the text that a model was trained on, and that text into ids with room for its images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docai.preprocess.inputs import ImageInput

Expansion = Callable[[str, ImageInput], str]


def run(token: str, image: ImageInput) -> str:
    """One image token per row of features, nothing between them."""
    return token * image.tokens


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """How a family writes images and turns where its checkpoint does not say it.

    `placeholder` stands for one image in a rendered prompt (what chat templates write); `expand` gives the text that
    replaces it, made of `token`, one for each row of features. `image` is what we write for an image where there is no
    template or it knows no images: the placeholder with the marks around it. `template` is the chat template of
    checkpoints that ship none, `plain` that of `--no-chat-template`: both see `messages` (content as parts), `image`,
    `bos_token` and the other named tokens.
    """

    placeholder: str = ""
    token: str = ""
    image: str = ""
    template: str = ""
    plain: str = ""
    expand: Expansion = run
