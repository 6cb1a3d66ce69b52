"""What the families of text-only models share: all is in their decoder."""

from __future__ import annotations

from functools import partial

from docai.checkpoint.dialect import Rule
from docai.vlm.config import Config
from docai.vlm.families import Family
from docai.vlm.families.decoder_rules import decoder_rules
from docai.vlm.families.decoders import decoder_spec
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.spec import ModelSpec

ASSISTANT = "You are a helpful assistant."


def chatml(system: str = "") -> str:
    """The turns of ChatML, for checkpoints without a chat template.

    `system`: what stands first where a conversation says nothing of the kind.
    """
    first = f"<|im_start|>system\n{system}<|im_end|>\n"
    return (
        "{% for message in messages %}"
        + (f"{{% if loop.first and message.role != 'system' %}}{first}{{% endif %}}" if system else "")
        + "<|im_start|>{{ message.role }}\n"
        "{% for part in message.content %}{{ part.text }}{% endfor %}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant{{ '\\n' }}"  # Jinja would drop a bare line break
    )


CHATML = chatml()


def text_family(name: str, model_types: tuple[str, ...], *, norm_offset: bool = False) -> Family:
    """A family of decoders whose tensors have the same names in every dialect."""
    rules = partial(_rules, norm_offset=norm_offset)
    return Family(name, model_types, _spec, {"transformers": rules, "mlx": rules}, PromptSpec(template=CHATML))


def _spec(config: Config) -> ModelSpec:
    return ModelSpec(decoder_spec(config))


def _rules(spec: ModelSpec, *, norm_offset: bool) -> tuple[Rule, ...]:
    return decoder_rules(spec.decoder, norm_offset=norm_offset)
