"""What shapes an answer besides sampling: thinking and its budget, JSON by a schema, the options themselves."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

mx = pytest.importorskip("mlx.core")

import numpy as np  # noqa: E402

from docai.errors import DependencyMissing, InputError, UsageError  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions, Timings, Usage  # noqa: E402
from docai.vlm.structured import Grammar, Vocabulary  # noqa: E402
from docai.vlm.thinking import Thinking, ThinkingMarks, thinking_marks  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.test_vlm_stream import KINDS  # noqa: E402
from tests.tiny_checkpoint import byte_level  # noqa: E402

MARKS = ThinkingMarks(1, 2)


def test_thinking_is_told_from_the_answer() -> None:
    thinking = Thinking(MARKS, [9, 9])
    seen = [(thinking.add(token), thinking.inside) for token in (1, 5, 6, 2, 7, 2)]
    assert seen == [(True, True), (False, True), (False, True), (True, False), (False, False), (False, False)]
    assert thinking.count == 2


def test_the_name_of_thinking_is_no_part_of_it() -> None:
    thinking = Thinking(ThinkingMarks(1, 2, name=3), [9])
    assert [thinking.add(token) for token in (1, 3, 5, 3, 2, 3)] == [True, True, False, False, True, False]
    assert thinking.count == 2
    backend = byte_level()
    backend.add_special_tokens(["<|channel>", "<channel|>"])
    backend.add_tokens(["thought"])
    assert thinking_marks(Tokenizer(backend)) == ThinkingMarks(
        *map(backend.token_to_id, ("<|channel>", "<channel|>", "thought"))
    )


@pytest.mark.parametrize(("prompt", "inside"), [([], False), ([9, 1], True), ([1, 9, 2], False), ([1, 2, 1, 9], True)])
def test_a_prompt_may_begin_the_thinking(prompt: list[int], inside: bool) -> None:
    assert Thinking(MARKS, prompt).inside is inside


def test_the_budget_forces_the_end() -> None:
    thinking = Thinking(MARKS, [1], budget=2)
    forced = []
    for token in (5, 6, 2, 7, 8):
        forced.append(thinking.forced())
        thinking.add(token)
    assert forced == [None, None, 2, None, None]
    assert Thinking(MARKS, [1], budget=0).forced() == 2


def test_models_that_do_not_think() -> None:
    thinking = Thinking(None, [1], budget=0)
    assert not thinking.inside
    assert not thinking.add(1)
    assert thinking.forced() is None


def test_marks_are_found_in_the_vocabulary_and_the_template() -> None:
    backend = byte_level()
    assert thinking_marks(Tokenizer(backend)) is None
    backend.add_special_tokens(["[THINK]", "[/THINK]"])
    backend.add_tokens(["<think>", "</think>"])
    ids = {name: backend.token_to_id(name) for name in ("<think>", "</think>", "[THINK]", "[/THINK]")}
    assert thinking_marks(Tokenizer(backend)) == ThinkingMarks(ids["<think>"], ids["</think>"])
    template = "{{ bos_token }}[THINK]{{ thought }}[/THINK]"
    found = thinking_marks(Tokenizer(backend, chat_template=template))
    assert found == ThinkingMarks(ids["[THINK]"], ids["[/THINK]"])


SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "currency": {"enum": ["EUR", "USD"]},
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 3}},
    },
    "required": ["total", "currency", "paid", "lines"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    backend = byte_level()
    backend.add_special_tokens(["<|end|>"])
    return Tokenizer(backend, stops=frozenset({backend.token_to_id("<|end|>")}))


def test_any_choice_among_allowed_tokens_follows_the_schema(tokenizer: Tokenizer) -> None:
    pytest.importorskip("llguidance")
    vocabulary, chance = Vocabulary(tokenizer), random.Random(1)
    for _ in range(5):
        grammar, ids = Grammar(vocabulary, SCHEMA), []
        while not grammar.done and len(ids) < 500:
            allowed = np.array(grammar.allowed(tokenizer.size + 12))
            assert not allowed[tokenizer.size :].any()
            closing = [t for t in np.flatnonzero(allowed) if tokenizer.token(int(t)) in ('"', "}", "]", ",")]
            ids.append(int(chance.choice(closing or np.flatnonzero(allowed).tolist())))
            grammar.add(ids[-1])
        said = json.loads(tokenizer.decode(ids))
        assert set(said) == set(SCHEMA["required"])
        assert said["currency"] in ("EUR", "USD")


@pytest.mark.parametrize("kind", ["byte_fallback", "byte_fallback_strip"])
def test_other_tokenizers_follow_schemas_too(kind: str) -> None:
    pytest.importorskip("llguidance")
    tokenizer = Tokenizer(KINDS[kind], stops=frozenset({KINDS[kind].token_to_id("<|end of it|>")}))
    grammar, ids = Grammar(Vocabulary(tokenizer), {"enum": ["hello", "a"]}), []
    while not grammar.done and len(ids) < 20:
        ids.append(int(np.flatnonzero(np.array(grammar.allowed(tokenizer.size)))[0]))
        grammar.add(ids[-1])
    assert json.loads(tokenizer.decode(ids)) in ("hello", "a")


def test_a_tokenizer_that_cannot_be_followed() -> None:
    pytest.importorskip("llguidance")
    with pytest.raises(UsageError, match="tokenizer cannot be followed"):
        Vocabulary(Tokenizer(KINDS["word_piece"]))


def test_a_schema_that_is_none_is_a_usage_error(tokenizer: Tokenizer) -> None:
    pytest.importorskip("llguidance")
    with pytest.raises(UsageError, match="json_schema"):
        Grammar(Vocabulary(tokenizer), {"type": "nonsense"})


def test_without_llguidance_the_extra_is_named(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(DependencyMissing, match=r"docai\[structured\]"):
        Vocabulary(tokenizer)


def test_schemas_come_as_text_file_or_mapping(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    for given in (SCHEMA, json.dumps(SCHEMA), str(path)):
        assert GenerationOptions(json_schema=given).schema() == SCHEMA
    with pytest.raises(InputError, match="cannot read"):
        GenerationOptions(json_schema=str(tmp_path / "none.json")).schema()
    path.write_text("[1]")
    with pytest.raises(UsageError, match="object"):
        GenerationOptions(json_schema=str(path)).schema()


@pytest.mark.parametrize(
    "options",
    [{"kv_bits": 3}, {"kv_bits": 4, "kv_window": 64}, {"stop": [""]}, {"max_tokens": 0}, {"thinking": "maybe"}],
)
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        GenerationOptions(**options)


def test_rates() -> None:
    done = Generation("x", usage=Usage(prompt=100, reused=20, generated=11), timings=Timings(prefill_s=2, decode_s=5))
    assert done.prefill_rate == 40
    assert done.decode_rate == 2
    assert Generation("").decode_rate == 0
