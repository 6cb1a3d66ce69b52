"""How a family writes media and turns; see `docai.vlm.prompt` for what is made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from docai.vlm.ask import Setting
from docai.vlm.expansions import Expansion, run


@dataclass(frozen=True, slots=True)
class MediumPrompt:
    """How a family writes clips that it sees as such, or sounds; the names mean what they mean in `PromptSpec`."""

    placeholder: str
    token: str
    text: str
    expand: Expansion = run


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """How a family writes images and turns where its checkpoint does not say it.

    `placeholder` stands for one image in a rendered prompt (what chat templates write; where that has a number in it,
    `written` is a regular expression for it); `expand` gives the text that replaces it, made of `token`, one for each
    row of features. `image` is what we write for an image where there is no template or it knows no images: the
    placeholder with the marks around it. `template` is the chat template of
    checkpoints that ship none, `plain` that of `--no-chat-template`: both see `messages`, whose content is always
    parts (`text` of an image part is `image`), `image`, `bos_token` and the other named tokens. Jinja drops a line
    break after a block and at the very end: `{{ '\\n' }}` stays. `surround` says whether the tokenizer may add its BOS.
    `fixed`: the template here counts, whatever the checkpoint has. `stops` are tokens that end an answer, too.
    `captions` are the fixed words that some models were taught for short, normal and long captions. `asked` puts the
    last message's words into the form that the model was taught. `most_images` of a request; with `pages`, more may be
    read as the pages of one text, where that is asked for. `token_id`: of `token`, where no vocabulary has it: then the
    texts between images are encoded each by itself, as the original code of LLaVA does; `all_begin`: each of them with
    its BOS (Phi-3 Vision). `opening`: what stands behind a template's last words, which checkpoints leave to the
    processor. `context`: images share what their text leaves of the tokens that a prompt may have, of so many where the
    tokenizer's files do not say it. `number` stands before each image or clip that asks for it; {} is how many came
    before. `clips`: how videos are written, of models that see them; `sounds`: likewise, of those that hear.
    """

    placeholder: str = ""
    token: str = ""
    image: str = ""
    template: str = ""
    plain: str = ""
    expand: Expansion = run
    surround: bool = True
    fixed: bool = False
    stops: tuple[str, ...] = ()
    captions: tuple[str, str, str] | None = None
    clips: MediumPrompt | None = None
    sounds: MediumPrompt | None = None
    asked: Callable[[str, Setting], str] | None = None
    most_images: int | None = None
    pages: bool = False
    written: str = ""
    token_id: int | None = None
    all_begin: bool = False
    opening: str = ""
    number: str = ""
    context: int | None = None

    @property
    def marks(self) -> str:
        """A regular expression of what stands for an image in a rendered prompt."""
        return self.written or re.escape(self.placeholder)

    @property
    def beside(self) -> dict[str, MediumPrompt]:
        """How media are written that are no images, by their kinds."""
        return {kind: how for kind, how in (("video", self.clips), ("audio", self.sounds)) if how is not None}

    def text_of(self, kind: str) -> str | None:
        """What we write for a medium of that kind; None where the model takes none."""
        if kind == "image":
            return self.image if self.placeholder else None
        how = self.beside.get(kind)
        return None if how is None else how.text

    def marks_of(self, kind: str) -> str:
        """A regular expression of what stands for a medium of that kind; nothing where the family writes none."""
        how = self.beside.get(kind)
        return self.marks if kind == "image" else re.escape(how.placeholder) if how else ""
