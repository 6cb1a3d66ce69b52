"""Writes what the references' processors make of the conversations; run with transformers 5.24, torch and Pillow.

    python -m tests.goldens.prompts.make

A tiny byte-level tokenizer stands for each family's own: `tokenizer.json`, and `tokenizer_bos.json` where a BOS is
added. `expected.json` has, for each case and conversation, the rendered text and the ids with all image tokens.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.goldens.processors import cases as pictures
from tests.goldens.processors.make import reference as image_processor
from tests.goldens.prompts import stated
from tests.goldens.prompts.cases import CASES, CONVERSATIONS, Case, Conversation, config_files

HERE = Path(__file__).parent
# lines merge into one token here, as in Gemma's vocabulary: what stands around an image counts
CORPUS = ["\n", "\n\n", "\n\n\n", "the image is what this", "user model assistant"] * 5


def tokenizer(bos: bool) -> Tokenizer:
    """Bytes and a few merges; BOS is 1."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    made.add_special_tokens(
        [AddedToken(f"<|{number}|>", normalized=False) for number in range(made.get_vocab_size(), 300)]
    )
    if bos:
        made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return made


def words_of(case: Case) -> Any:
    """The tiny tokenizer with the tokens of the case, as transformers has it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        tokenizer(case.bos).save(str(path / "tokenizer.json"))
        files = config_files(case)
        (path / "tokenizer_config.json").write_text(json.dumps(files["tokenizer_config.json"]), encoding="utf-8")
        words = PreTrainedTokenizerFast.from_pretrained(folder)
    words.chat_template = case.template
    return words


def reference(case: Case) -> Any:
    """The family's processor around the tiny tokenizer."""
    words, images = words_of(case), image_processor(pictures.CASES[case.image_case])
    module, name = case.reference.removeprefix("mlx_vlm.").split(".")
    if case.reference.startswith("mlx_vlm."):
        kind = getattr(import_module(f"mlx_vlm.models.{module}.processing_{module}"), name)
        return kind(Sized(images), words, chat_template=case.template)
    # this processor takes one function of the torchvision variant, which the other has as well
    pixtral = "transformers.models.pixtral.image_processing_"
    sys.modules[f"{pixtral}pixtral"] = import_module(f"{pixtral}pil_pixtral")
    kind = getattr(import_module(f"transformers.models.{module}.processing_{module}"), name)
    # frames of videos need torchvision; images do not
    kind.check_argument_for_proper_class = lambda *_: None
    videos = {"video_processor": None} if "qwen" in module or "compass" in module else {}
    if "gemma4" in module:
        videos = {"video_processor": None, "feature_extractor": None}
    if "minicpm" in module:  # asks it how it would slice frames
        videos = {"video_processor": SimpleNamespace(slice_mode=True, downsample_mode="16x")}
    return kind(
        image_processor=images,
        tokenizer=words,
        chat_template=case.template,
        **videos,
        **case.options,
    )


class Sized:
    """An image processor of transformers for mlx-vlm's, which name sizes that they leave open."""

    def __init__(self, images: Any) -> None:
        self.images, self.merge_size, self.temporal_patch_size = images, images.merge_size, images.temporal_patch_size

    def __call__(self, **said: Any) -> Any:
        return self.images(**{name: value for name, value in said.items() if value is not None})


def golden(case: Case, conversation: Conversation) -> dict[str, Any]:
    """Text and ids. PaliGemma has no template: its processor takes images and words."""
    if case.reference.startswith("published."):
        prompt = getattr(stated, case.reference.removeprefix("published."))
        return prompt(words_of(case), case, conversation)  # type: ignore[no-any-return]
    processor = reference(case)
    images = [Image.fromarray(pictures.picture(size)) for size in conversation.images]
    if case.template is None:
        parts = conversation.messages[-1]["content"]
        text = "<image>" * len(images) + "".join(part.get("text", "") for part in parts)
        out = processor(text=text, images=images)
        return {"ids": flat(out["input_ids"])}
    text = processor.apply_chat_template(conversation.messages, add_generation_prompt=True)
    special = {} if not text.startswith("<s>") else {"add_special_tokens": False}
    # the processor has defaults of its own for these, which hide those of its image processor
    prep = pictures.CASES[case.image_case].prep
    pan = {name: value for name, value in prep.items() if "pan_and_scan" in name and value is not None}
    out = processor(text=text, images=[images] if images else None, padding=False, **special, **pan)
    return {"text": text, "ids": flat(out["input_ids"])}


def flat(ids: Any) -> list[int]:
    """The ids of the only sample, of whatever type."""
    return [int(number) for number in np.asarray(ids, np.int64).reshape(-1)]


def runs(ids: list[int]) -> list[list[int]]:
    """[id, times] of each run: image tokens are many."""
    short: list[list[int]] = []
    for number in ids:
        if short and short[-1][0] == number:
            short[-1][1] += 1
        else:
            short.append([number, 1])
    return short


def main() -> None:
    """All cases into one file."""
    for bos in (False, True):
        tokenizer(bos).save(str(HERE / f"tokenizer{'_bos' * bos}.json"), pretty=False)
    expected: dict[str, Any] = {}
    for name, case in CASES.items():
        for what, conversation in CONVERSATIONS.items():
            several_only = case.template is None and (not conversation.images or len(conversation.messages) > 1)
            if several_only or (name == "gemma3_pan" and what not in ("one", "several")):
                continue
            result = golden(case, conversation)
            expected.setdefault(name, {})[what] = {**result, "ids": runs(result["ids"])}
    (HERE / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
