"""Every kind of tokenizer file gives the ids of its own library, and its special tokens, ends and templates."""

from __future__ import annotations

import json
import shutil
import struct
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from docai.checkpoint.checkpoint import Checkpoint
from docai.checkpoint.vocab.gguf import from_gguf_fields
from docai.checkpoint.vocab.merges import merges_of
from docai.checkpoint.vocab.sentencepiece import read_model
from docai.errors import CheckpointError
from docai.vlm.tokenizer import Tokenizer
from tests.goldens.tokenizers.texts import MARKED, SENTENCES, TEXTS

GOLDENS = Path(__file__).parent / "goldens" / "tokenizers"
KINDS = sorted(path.name for path in GOLDENS.iterdir() if (path / "expected.json").is_file())


def load(path: Path, config: dict[str, Any] | None = None, made: dict[str, str] | None = None) -> Tokenizer:
    return Tokenizer.from_checkpoint(Checkpoint("tiny", path, config or {}, (), {}, made=made or {}))


def expected(kind: str) -> dict[str, list[list[int]]]:
    ids: dict[str, list[list[int]]] = json.loads((GOLDENS / kind / "expected.json").read_text(encoding="utf-8"))
    return ids


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_reference(kind: str) -> None:
    tokenizer, golden = load(GOLDENS / kind), expected(kind)
    # SentencePiece takes no text for a special token, as docai and transformers do; and a unigram model that squeezes
    # spaces squeezes their spelling
    other = {"llama_model": "as text", "gemma_model": "as text", "unigram": "▁"}.get(kind, "no such text")
    for text, ids in zip(TEXTS, golden["texts"], strict=True):
        if other not in text and not (kind == "unigram" and "as text" in text):
            assert tokenizer.encode(text, special=False) == ids, repr(text)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if expected(kind)["marked"]])
def test_special_tokens_are_whole_wherever_they_stand(kind: str, tmp_path: Path) -> None:
    path = GOLDENS / kind
    if kind == "llama_model":  # its golden is that of `legacy: false`, with BOS
        path = tmp_path
        (path / "tokenizer.model").write_bytes((GOLDENS / kind / "tokenizer.model").read_bytes())
        (path / "tokenizer_config.json").write_text('{"legacy": false, "add_bos_token": true}', encoding="utf-8")
    tokenizer = load(path)
    for text, ids in zip(MARKED, expected(kind)["marked"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_come_back(kind: str) -> None:
    tokenizer = load(GOLDENS / kind)
    for text in SENTENCES if kind == "unigram" else TEXTS:  # it squeezes spaces and has no token for every byte
        ids = tokenizer.encode(text, special=False)
        back = tokenizer.decode(ids, skip_special=False)
        if kind == "unigram":
            assert back.split() == text.split()
        elif kind in ("tokenizer_json", "vocab_and_merges"):
            assert back == unicodedata.normalize("NFC", text)  # as their files ask
        elif "▁" not in text and "as text" not in text:
            assert back == text


def test_special_tokens_are_skipped_unless_asked_for() -> None:
    tokenizer = load(GOLDENS / "tokenizer_json")
    ids = tokenizer.encode("<|im_start|>a<think>b<|im_end|>", special=False)
    assert tokenizer.decode(ids) == "a<think>b"
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|>a<think>b<|im_end|>"


def test_what_the_configuration_adds() -> None:
    tokenizer = load(GOLDENS / "tokenizer_json")
    assert tokenizer.named == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert tokenizer.token_id("<|im_start|>") == 501
    assert tokenizer.token_id("<|image_pad|>") == tokenizer.size - 1
    assert tokenizer.token(tokenizer.size - 1) == "<|image_pad|>"
    assert tokenizer.token_id("no token") is None
    assert tokenizer.stops == {500, 502}  # generation_config.json
    assert (tokenizer.chat_template, tokenizer.tool_template) == ("plain", "tools")


@pytest.mark.parametrize(
    ("said", "longest"),
    [
        ("4096", 4096),
        ("1e30", int(1e30)),
        ("0", None),
        ("true", None),
        ('"many"', None),
        ("Infinity", None),
        ("null", None),
    ],
)
def test_the_longest_text_is_what_the_configuration_says(said: str, longest: int | None, tmp_path: Path) -> None:
    """transformers writes 1e30 where there is no end."""
    (tmp_path / "tokenizer.json").write_bytes((GOLDENS / "tokenizer_json" / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(f'{{"model_max_length": {said}}}', encoding="utf-8")
    found = load(tmp_path).longest
    assert found == longest


def test_ends_without_a_generation_config() -> None:
    path = GOLDENS / "vocab_and_merges"
    assert load(path).stops == {502}
    assert load(path, {"text_config": {"eos_token_id": [3, 4]}, "eos_token_id": 5}).stops == {3, 4, 5, 502}


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"chat_template.jinja": "own", "chat_template.json": '{"chat_template": "json"}'}, "own"),
        ({"chat_template.json": '{"chat_template": "json"}', "processor_config.json": "{}"}, "json"),
        ({"processor_config.json": '{"chat_template": "processor"}'}, "processor"),
        ({"processor_config.json": "{}"}, None),
    ],
)
def test_the_template_is_found(files: dict[str, str], template: str | None) -> None:
    made = {**files, "tokenizer.json": (GOLDENS / "tokenizer_json" / "tokenizer.json").read_text(encoding="utf-8")}
    assert load(Path("nowhere"), made=made).chat_template == template


@pytest.mark.parametrize(
    "config",
    [{"added_tokens_decoder": {"x": {}}}, {"added_tokens_decoder": {"1": "text"}}, {"added_tokens_decoder": ["x"]}],
    ids=["id", "token", "list"],
)
def test_added_tokens_that_are_none_are_named(config: dict[str, Any]) -> None:
    text = (GOLDENS / "tokenizer_json" / "tokenizer.json").read_text(encoding="utf-8")
    with pytest.raises(CheckpointError, match="expected"):
        load(Path("nowhere"), made={"tokenizer.json": text, "tokenizer_config.json": json.dumps(config)})


@pytest.mark.parametrize(
    "listed", [["x"], {"500": {"content": "<x>"}, "501": {"content": "<x>"}}, {"500": {"content": "a"}}],
    ids=["list", "twice", "known"],
)  # fmt: skip
def test_kimi_s_tokens_that_would_have_other_ids_are_refused(listed: object, tmp_path: Path) -> None:
    shutil.copy(GOLDENS / "kimi_tiktoken" / "tiktoken.model", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": listed}), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer_config.json: expected"):
        load(tmp_path)


def test_templates_without_names_are_none() -> None:
    text = (GOLDENS / "tokenizer_json" / "tokenizer.json").read_text(encoding="utf-8")
    config = json.dumps({"chat_template": ["x", {"name": "default"}]})
    assert load(Path("nowhere"), made={"tokenizer.json": text, "tokenizer_config.json": config}).chat_template is None


def test_legacy_gives_each_text_its_space(tmp_path: Path) -> None:
    model = (GOLDENS / "llama_model" / "tokenizer.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(model)
    text = "<|im_start|>hello"
    legacy = load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"legacy": false}', encoding="utf-8")
    plain = load(tmp_path)
    first = plain.token_id("<|im_start|>")
    assert legacy.encode(text) == [1, first, *legacy.encode("hello", special=False)]
    assert plain.encode(text)[:2] == [1, first]
    assert plain.encode(text) != legacy.encode(text)
    assert legacy.named == {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def test_sentencepiece_files_are_read_as_they_say() -> None:
    model = read_model((GOLDENS / "gemma_model" / "tokenizer.model").read_bytes())
    assert not model.unigram
    assert model.byte_fallback
    assert not model.dummy_prefix
    assert [model.piece(number) for number in (model.unk_id, model.bos_id, model.eos_id, -1)] == [
        *("<unk>", "<s>", "</s>"),
        None,
    ]
    assert read_model((GOLDENS / "unigram" / "tokenizer.model").read_bytes()).charsmap


@pytest.mark.parametrize(
    ("config", "around"),
    [
        ('{"add_bos_token": false}', (False, False)),
        ('{"add_bos_token": true, "add_eos_token": true}', (True, True)),
        ("{}", (True, False)),  # Llama's file says nothing; it was trained with BOS
    ],
)
def test_what_stands_around_a_text(tmp_path: Path, config: str, around: tuple[bool, bool]) -> None:
    (tmp_path / "tokenizer.model").write_bytes((GOLDENS / "llama_model" / "tokenizer.model").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(config, encoding="utf-8")
    tokenizer = load(tmp_path)
    ids, inner = tokenizer.encode("hello"), tokenizer.encode("hello", special=False)
    assert ids == [1] * around[0] + inner + [2] * around[1]


@pytest.mark.parametrize("cut", [1, 3, 700, 5000])
def test_a_broken_sentencepiece_file_is_named(cut: int) -> None:
    data = (GOLDENS / "llama_model" / "tokenizer.model").read_bytes()
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: expected a SentencePiece model"):
        read_model(data[:cut])


@pytest.mark.parametrize("value", [b"\x0a\x03abc\xff" * 2, b"\x0a\x02\x0d\x00", b"\x0b\x00"])
def test_other_bytes_are_no_sentencepiece_file(value: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.model"):
        read_model(value)


def test_a_broken_tiktoken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "qwen.tiktoken").write_bytes(b"YQ== 0\nYg==\n")
    with pytest.raises(CheckpointError, match=r"qwen\.tiktoken, line 2"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"config": {"pattern": "a"}, "special_tokens": [], "vocab": [{}]}', "{"])
def test_a_broken_tekken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tekken.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tekken\.json: cannot be read"):
        load(tmp_path)


def test_what_was_looked_for_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no tokenizer: expected tokenizer\.json, tokenizer\.model"):
        load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: cannot be read"):
        load(tmp_path)


def test_qwen_special_tokens_have_the_numbers_of_got() -> None:
    """After 151643 tokens, <imgpad> is 151859: the id in GOT-OCR's config."""
    tokenizer = load(GOLDENS / "qwen_tiktoken")
    first = tokenizer.token_id("<|endoftext|>")
    assert first is not None
    ids = [tokenizer.token_id(text) for text in ("<|im_end|>", "<img>", "</img>", "<imgpad>")]
    assert ids == [first + (number - 151643) for number in (151645, 151857, 151858, 151859)]


def test_kimi_s_special_tokens_have_the_ids_of_its_config() -> None:
    """What has no name there is kept free; what opens a thought is no special token, so that it stays in answers."""
    tokenizer = load(GOLDENS / "kimi_tiktoken")
    first = tokenizer.token_id("<|endoftext|>")
    assert first is not None
    assert tokenizer.token_id("<|im_end|>") == first + 7
    assert tokenizer.token_id(f"<|reserved_token_{first + 255}|>") == first + 255
    assert tokenizer.size == first + 256
    ids = tokenizer.encode("<think>a</think><|im_end|>", special=False)
    assert tokenizer.decode(ids) == "<think>a</think>"


def test_merges_follow_rank_then_length() -> None:
    ranks = {"a": 0, "b": 1, "ab": 2, "ba": 3, "aba": 4}
    assert merges_of(ranks) == [("a", "b"), ("b", "a"), ("a", "ba"), ("ab", "a")]


def test_gguf_byte_level_vocabularies() -> None:
    data = json.loads((GOLDENS / "vocab_and_merges" / "vocab.json").read_text(encoding="utf-8"))
    tokens = [*sorted(data, key=data.__getitem__), "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    merges = (GOLDENS / "vocab_and_merges" / "merges.txt").read_text(encoding="utf-8").splitlines()
    fields = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 500 + [3, 3, 3, 4, 4],
        "tokenizer.ggml.merges": [line for line in merges if not line.startswith("#version")],
        "tokenizer.ggml.eos_token_id": 502,
        "tokenizer.chat_template": "template",
    }
    tokenizer, golden = load(Path("nowhere"), made=from_gguf_fields(fields)), expected("vocab_and_merges")
    for text, ids in zip(TEXTS, golden["texts"], strict=True):
        if "\u0301" not in text:  # llama.cpp does not compose
            assert tokenizer.encode(text) == ids, repr(text)
    assert [tokenizer.encode(text) for text in MARKED] == golden["marked"]
    assert (tokenizer.stops, tokenizer.chat_template) == ({502}, "template")


def test_gguf_sentencepiece_vocabularies() -> None:
    model = read_model((GOLDENS / "llama_model" / "tokenizer.model").read_bytes())
    fields = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [piece.text for piece in model.pieces],
        "tokenizer.ggml.scores": [piece.score for piece in model.pieces],
        "tokenizer.ggml.token_type": [int(piece.kind) for piece in model.pieces],
        "tokenizer.ggml.bos_token_id": model.bos_id,
        "tokenizer.ggml.eos_token_id": model.eos_id,
        "tokenizer.ggml.unknown_token_id": model.unk_id,
    }
    tokenizer = load(Path("nowhere"), made=from_gguf_fields(fields))
    for text, ids in zip(TEXTS, expected("llama_model")["texts"], strict=True):
        if "as text" not in text:
            assert tokenizer.encode(text) == [model.bos_id, *ids], repr(text)
    assert tokenizer.stops == {model.eos_id}


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({}, r"no tokenizer\.ggml\.model"),
        ({"tokenizer.ggml.model": "rwkv"}, "got 'rwkv'"),
        ({"tokenizer.ggml.model": "gpt2"}, r"no tokenizer\.ggml\.tokens"),
        (
            {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.tokens": ["a"],
                "tokenizer.ggml.merges": [],
                "tokenizer.ggml.pre": "x",
            },
            "got 'x'",
        ),
    ],
)
def test_gguf_fields_that_cannot_be_read_are_named(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(CheckpointError, match=what):
        from_gguf_fields(fields)


def test_scores_are_four_bytes() -> None:
    """The field of a piece's score has a fixed width, unlike all others that are read."""
    piece = b"\x0a\x01a\x15" + struct.pack("<f", -1.5)
    trainer = b"\x18\x02"
    data = b"\x0a" + bytes([len(piece)]) + piece + b"\x12" + bytes([len(trainer)]) + trainer
    assert read_model(data).pieces[0].score == -1.5
