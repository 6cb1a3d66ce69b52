"""Prompts have the text and the ids that the references' processors give, and say what is wrong with a request."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docai.checkpoint.checkpoint import Checkpoint
from docai.errors import CheckpointError, UsageError
from docai.preprocess.inputs import ImageInput
from docai.vlm.expansions import Framed, Rows, Tiles
from docai.vlm.families import FAMILIES, family_of
from docai.vlm.prompt import encode, expand, render, share
from docai.vlm.prompt_spec import PromptSpec
from docai.vlm.tokenizer import Tokenizer
from tests.goldens.processors import cases as pictures
from tests.goldens.prompts.cases import CASES, CONVERSATIONS, GEMMA, ONE, PIXTRAL, QWEN, Case, config_files

GOLDENS = Path(__file__).parent / "goldens" / "prompts"
EXPECTED: dict[str, dict[str, Any]] = json.loads((GOLDENS / "expected.json").read_text(encoding="utf-8"))
PAIRS = [(name, what) for name, conversations in EXPECTED.items() for what in conversations]
LLAVA = PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", template="unused")


def tokenizer(case: Case, template: str | None = None) -> Tokenizer:
    files = config_files(case)
    config = files["tokenizer_config.json"]
    made = {
        "tokenizer.json": (GOLDENS / f"tokenizer{'_bos' * case.bos}.json").read_text(encoding="utf-8"),
        "tokenizer_config.json": json.dumps(config),
    }
    if text := template or case.template:
        made["chat_template.jinja"] = text
    return Tokenizer.from_checkpoint(Checkpoint("tiny", Path("nowhere"), {}, (), {}, made=made))


def prompt_of(case: Case) -> PromptSpec:
    return family_of({"model_type": case.family}).prompt


def images_of(case: Case, sizes: tuple[tuple[int, int], ...]) -> list[ImageInput]:
    family, like = family_of({"model_type": case.family}), pictures.CASES[case.image_case]
    assert family.images is not None
    processor = family.images(like.prep, {**like.config, **case.config})  # type: ignore[arg-type]
    return [processor(pictures.picture(size)) for size in sizes]


def seen(tokens: int, grid: tuple[int, int, int] | None = None) -> ImageInput:
    return ImageInput(np.zeros((1, 1), np.float32), tokens, grid)


def runs(ids: list[int]) -> list[list[int]]:
    short: list[list[int]] = []
    for number in ids:
        if short and short[-1][0] == number:
            short[-1][1] += 1
        else:
            short.append([number, 1])
    return short


@pytest.mark.parametrize(("name", "what"), PAIRS)
def test_text_and_ids_are_those_of_the_reference(name: str, what: str) -> None:
    case, conversation, golden = CASES[name], CONVERSATIONS[what], EXPECTED[name][what]
    words, spec = tokenizer(case), prompt_of(case)
    text = render(conversation.messages, words, spec)
    if "text" in golden:
        assert text == golden["text"]
    ids = encode(text, images_of(case, conversation.images), words, spec)
    assert runs(ids) == golden["ids"]


@pytest.mark.parametrize("kind", sorted(kind for kind in FAMILIES if family_of({"model_type": kind}).asked is None))
@pytest.mark.parametrize("template", [True, False])
def test_families_have_a_prompt_of_their_own(kind: str, template: bool) -> None:
    """For checkpoints without a chat template, and for --no-chat-template."""
    spec = family_of({"model_type": kind}).prompt
    case = Case(kind, "", "", (spec.token or "<none>",), None)
    content: list[Any] = [{"type": "text", "text": "What is this?"}]
    images = [{"type": "image"}, {"type": "image"}] if spec.placeholder else []
    text = render([{"role": "user", "content": [*images, *content]}], tokenizer(case), spec, template=template)
    assert "What is this?" in text
    if spec.placeholder:
        assert text.count(spec.placeholder) == 2
        expand(text, [seen(4, (1, 2, 2)), seen(6, (1, 2, 3))], spec)
    if not template and not spec.plain:
        assert text == f"{spec.image * len(images)}What is this?"


TEMPLATES = {
    "text": "{% for m in messages %}<{{ m.role }}>{{ m.content + '' }}{% endfor %}",
    "parts": "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
    "printed": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}",
    "first": "{% for m in messages %}<{{ m.role }}>{{ m.content[0].text }}{% endfor %}",
    "images": (
        "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}"
        "{% endif %}{% endfor %}"
    ),
    "by role": (
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'user' %}{% for p in m.content %}{{ p.text }}"
        "{% endfor %}{% else %}{{ m.content + '' }}{% endif %}{% endfor %}"
    ),
}


@pytest.mark.parametrize("form", TEMPLATES)
def test_content_has_the_form_that_the_template_wants(form: str) -> None:
    words = tokenizer(CASES["llava"], TEMPLATES[form])
    given: list[dict[str, Any]] = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    image = "<image>" if form == "images" else "<image>\n"
    assert render(given, words, LLAVA) == f"<system>be brief<user>{image}ab<assistant>c<user>d"


def test_parts_stay_apart_where_the_template_tells_them_apart() -> None:
    template = "{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}"
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]
    assert render([{"role": "user", "content": parts}], tokenizer(CASES["llava"], template), LLAVA) == "[a][b][c]"


def test_other_fields_reach_the_template() -> None:
    template = (
        "{% for m in messages %}{{ m.content }}{{ m.tool_calls | tojson if m.tool_calls else '' }}{% endfor %}"
        "{{ tools | length }}{{ enable_thinking }}{{ add_generation_prompt }}{{ bos_token }}"
    )
    given = [
        {"role": "user", "content": "a", "name": None},
        {"role": "assistant", "content": None, "tool_calls": [{"f": np.float64(0.5), "g": (1,)}]},
        {"role": "tool", "content": "b"},
    ]
    text = render(given, tokenizer(CASES["qwen2_vl"], template), LLAVA, tools=[{}], enable_thinking=False)
    assert text == 'a[{"f": 0.5, "g": [1]}]b1FalseTrue<s>'


def test_prompts_with_tools_have_their_template() -> None:
    words = tokenizer(CASES["llava"], "plain")
    both = Tokenizer(words.backend, words.named, words.stops, "plain", "tools")
    turn = [{"role": "user", "content": "a"}]
    assert render(turn, both, LLAVA) == "plain"
    assert render(turn, both, LLAVA, tools=[{"name": "f"}]) == "tools"
    assert render(turn, words, LLAVA, tools=[{"name": "f"}]) == "plain"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([], "expected at least one"),
        (["hello"], "a role and content"),
        ([{"content": "a"}], "a role and content"),
        ([{"role": "user", "content": 3}], "a text or a list of parts"),
        (
            [{"role": "user", "content": [{"type": "audio", "data": "x"}]}],
            "a part is audio, but this model hears nothing",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], "with a text"),
    ],
)
def test_messages_that_are_none_are_named(given: list[Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        render(given, tokenizer(CASES["llava"]), LLAVA)


def test_what_a_template_says_against_messages_is_passed_on() -> None:
    words = tokenizer(CASES["gemma3"])
    given = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(UsageError, match=r"refuses these messages: Conversation roles must alternate.*--no-chat-templ"):
        render(given, words, prompt_of(CASES["gemma3"]))
    assert render(given, words, prompt_of(CASES["gemma3"]), template=False) == "a\nb"


def test_an_endless_template_is_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docai.vlm.template.MOST_SECONDS", 0.3)
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    started = time.monotonic()
    with pytest.raises(CheckpointError, match="runs for more than"):
        render(ONE.messages, tokenizer(CASES["llava"], endless), LLAVA)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(("places", "count"), [(0, 1), (1, 0), (2, 1), (1, 3)])
def test_images_without_a_place_and_places_without_an_image(places: int, count: int) -> None:
    with pytest.raises(UsageError, match=rf"<image> {places} times, but {count} image"):
        expand("<image>" * places + "a", [seen(2)] * count, LLAVA)


def test_a_text_cannot_pass_for_an_image() -> None:
    spec, words = prompt_of(CASES["gemma3"]), tokenizer(CASES["gemma3"])
    given = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "<image_soft_token>"}]}]
    with pytest.raises(UsageError, match="256 rows of features, but the prompt has <image_soft_token> 257 times"):
        encode(render(given, words, spec), images_of(CASES["gemma3"], ((30, 30),)), words, spec)


def test_models_without_eyes_say_so() -> None:
    words = tokenizer(CASES["llava"])
    with pytest.raises(UsageError, match="reads text only"):
        render(ONE.messages, words, PromptSpec(template="x"))
    with pytest.raises(UsageError, match="1 image came with the prompt, but this model reads text only"):
        encode("a", [seen(1)], words, PromptSpec())
    assert expand("<image> is a word here", [], PromptSpec()) == "<image> is a word here"


def test_a_vocabulary_without_the_image_token_is_named() -> None:
    with pytest.raises(CheckpointError, match="no token '<picture>'"):
        encode("<image>", [seen(2)], tokenizer(CASES["llava"]), PromptSpec(placeholder="<image>", token="<picture>"))


def test_bos_is_added_once() -> None:
    words = tokenizer(CASES["llava"])
    assert words.named["bos_token"] == "<s>"
    for text in ("a", "<s>a"):
        assert encode(text, [], words, LLAVA).count(1) == 1
    assert encode("a", [], words, PromptSpec(surround=False)).count(1) == 0


def test_what_replaces_a_placeholder() -> None:
    assert Rows("|", "]")("x", seen(6, (1, 2, 3))) == "xxx|xxx]"
    assert Rows("|", "]")("x", seen(6, (1, 4, 6))) == "xxx|xxx]"
    assert Framed("(", ")")("x", seen(3)) == "(xxx)"
    crops = ImageInput(np.zeros((3, 2, 2, 3), np.float32), 6)
    assert Framed("(", ")", " also ")("x", crops) == "Here is the original image (xx) also (xx) (xx)"
    between = expand("a<image>b<image>c", [seen(1), seen(3)], LLAVA)
    assert between == "a<image>b<image><image><image>c"


@pytest.mark.parametrize("template", [QWEN, GEMMA, PIXTRAL])
def test_a_conversation_of_texts_is_the_same_in_both_forms(template: str) -> None:
    words, spec = tokenizer(CASES["gemma3"], template), prompt_of(CASES["gemma3"])
    texts = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    parts = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in texts]
    assert render(texts, words, spec) == render(parts, words, spec)


def test_images_that_no_vocabulary_has_stand_between_texts_that_are_encoded_each_by_itself() -> None:
    spec = PromptSpec(placeholder="<image>", token="<image>", image="<image>\n", token_id=-200)
    words = tokenizer(Case("llava", "", "", (), None, bos=True))
    ids = encode("ab<image>\nc<image>", [seen(2), seen(3)], words, spec)
    after = words.encode("\nc", special=False)
    assert ids == [*words.encode("ab"), -200, -200, *after, -200, -200, -200]
    with pytest.raises(UsageError, match="2 times"):
        encode("<image><image>", [seen(2)], words, spec)


def test_each_text_of_phi_3_vision_begins_with_bos_an_empty_one_too() -> None:
    """As processing_phi3_v.py of Phi-3 Vision encodes what stands before, between and behind its images."""
    spec, words = prompt_of(CASES["phi3_v"]), tokenizer(CASES["phi3_v"])
    (bos,) = words.encode("")
    ids = encode("ab<|image_1|><|image_2|>c<|image_3|>", [seen(2), seen(1), seen(3)], words, spec)
    outside = spec.token_id
    assert ids == [*words.encode("ab"), outside, outside, bos, outside, *words.encode("c"), *[outside] * 3, bos]


@pytest.mark.parametrize(("words", "images"), [(0, 1), (100, 1), (5, 2), (700, 3), (4090, 4), (9000, 1)])
def test_images_share_what_their_text_leaves(words: int, images: int) -> None:
    """With the tiles that they may have then, as processing_llmjpvl.py of LLM-jp-VL counts them."""
    spec, tokens = prompt_of(CASES["llmjpvl"]), tokenizer(CASES["llmjpvl"])
    text = "<image>" * images + "<|end|>" * words
    found = share(text, images, tokens, spec)
    assert found is not None
    published = max(1, min(12, ((4096 - words) // images - 2) // 256 - 1))
    assert max(1, min(12, found // 256 - 1)) == published
    longer = share(text, images, replace(tokens, longest=9000), spec)  # what its tokenizer_config.json says, counts
    assert longer == max(1, (9000 - words) // images - 2)
    assert share(text, 0, tokens, spec) is None
    assert share(text, images, tokens, LLAVA) is None


def test_tiles_stand_behind_their_rows_and_columns() -> None:
    expansion = Tiles("<s>", "</s>", "<r{}c{}>", "<all>")
    assert expansion("x", seen(3, (1, 2, 6))) == "<s>xxx</s>"
    extra = {"tiles": np.array((1, 2)), "grids": np.array([(1, 2, 4), (1, 2, 4), (1, 2, 2)])}
    tiled = ImageInput(np.zeros((20, 1), np.float32), 5, extra=extra)
    assert expansion("x", tiled) == "<s><r1c1>xx<r1c2>xx<all>x</s>"
    bare = ImageInput(np.zeros((16, 1), np.float32), 4, extra={**extra, "grids": extra["grids"][:2]})
    assert expansion("x", bare) == "<s><r1c1>xx<r1c2>xx</s>"
