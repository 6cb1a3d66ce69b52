"""Trains tiny tokenizers of every kind and writes what their own libraries make of the texts.

    python -m tests.goldens.tokenizers.make

Run with transformers 5.24, tokenizers, sentencepiece and tiktoken. Each folder is a checkpoint without weights, with
`expected.json`: the ids of TEXTS and of MARKED.
"""

from __future__ import annotations

import base64
import io
import json
import shutil
from pathlib import Path
from typing import Any

import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, LlamaTokenizer, PreTrainedTokenizerFast
from transformers.integrations.mistral.tokenizer import MistralConverter

from docai.checkpoint.vocab.byte_level import LLAMA3, QWEN, TEKKEN
from docai.checkpoint.vocab.tiktoken import QWEN_SPECIAL
from tests.goldens.tokenizers.texts import CORPUS, MARKED, TEXTS

HERE = Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def folder(name: str) -> Path:
    """An empty folder."""
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def write(path: Path, value: Any) -> None:
    """JSON on one line per entry of the first level."""
    path.write_text(json.dumps(value, ensure_ascii=True) + "\n", encoding="utf-8")


def bpe() -> Tokenizer:
    """Qwen2's shape: NFC, its split, byte-level merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def tokenizer_json() -> None:
    """tokenizer.json and a tokenizer_config.json with tokens that it lacks."""
    path, tokenizer = folder("tokenizer_json"), bpe()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    tokenizer.enable_truncation(max_length=8)  # some checkpoints keep this; it must not cut prompts
    tokenizer.save(str(path / "tokenizer.json"), pretty=False)
    size = tokenizer.get_vocab_size()
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    added = {str(500 + i): {"content": text, "special": True, **flags} for i, text in enumerate(SPECIAL)}
    added |= {
        str(size): {"content": "<think>", "special": False, **flags},
        str(size + 1): {"content": "</think>", "special": False, **flags},
        str(size + 2): {"content": "<|image_pad|>", "special": True, **flags},
    }
    write(
        path / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "added_tokens_decoder": added,
            "bos_token": "<|im_start|>",
            "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "special": True, **flags},
            "pad_token": None,
            "add_bos_token": True,  # the file itself adds none, and it counts
            "chat_template": [
                {"name": "default", "template": "plain"},
                {"name": "tool_use", "template": "tools"},
            ],
        },
    )
    write(path / "generation_config.json", {"eos_token_id": [500, 502]})
    reference = AutoTokenizer.from_pretrained(path)
    expect(path, [reference.encode(text) for text in TEXTS], [reference.encode(text) for text in MARKED])


def vocab_and_merges() -> None:
    """Qwen2's vocab.json and merges.txt, added_tokens.json and special_tokens_map.json beside them."""
    path, tokenizer = folder("vocab_and_merges"), bpe()
    tokenizer.model.save(str(path))
    merges = (path / "merges.txt").read_text(encoding="utf-8")
    (path / "merges.txt").write_text(merges, encoding="utf-8")
    write(path / "added_tokens.json", {text: 500 + i for i, text in enumerate([*SPECIAL, "<think>", "</think>"])})
    write(path / "special_tokens_map.json", {"eos_token": "<|im_end|>", "additional_special_tokens": SPECIAL})
    write(path / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer"})
    for text in SPECIAL:
        tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True)])
    tokenizer.add_tokens(["<think>", "</think>"])
    reference = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    expect(path, [reference.encode(text) for text in TEXTS], [reference.encode(text) for text in MARKED])


def tiktoken_files() -> None:
    """A qwen.tiktoken, and a tokenizer.model of Llama 3's kind, by the tiktoken library."""
    letters = {letter: byte for byte, letter in _spelling().items()}
    vocab = sorted(bpe().get_vocab().items(), key=lambda item: item[1])
    ranks = {bytes(letters[char] for char in text): number for text, number in vocab}
    lines = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    for name, file, split in (("qwen_tiktoken", "qwen.tiktoken", QWEN), ("llama_tiktoken", "tokenizer.model", LLAMA3)):
        path = folder(name)
        (path / file).write_bytes(lines)
        texts = QWEN_SPECIAL if name == "qwen_tiktoken" else SPECIAL
        special = {text: len(ranks) + i for i, text in enumerate(texts)}
        if name == "llama_tiktoken":
            write(path / "tokenizer_config.json", {"additional_special_tokens": SPECIAL})
        encoding = tiktoken.Encoding(name, pat_str=split, mergeable_ranks=ranks, special_tokens=special)
        marked = [encoding.encode(text, allowed_special="all") for text in MARKED]
        expect(path, [encoding.encode_ordinary(text) for text in TEXTS], marked)
    kimi(lines, ranks)


def kimi(lines: bytes, ranks: dict[bytes, int]) -> None:
    """A tiktoken.model, whose special tokens have names in tokenizer_config.json; words as Kimi cuts them.

    As tokenization_kimi.py of moonshotai/Kimi-VL-A3B-Instruct has them.
    """
    upper, lower = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]", r"\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]"
    short = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    split = [
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]*[{lower}]+{short}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]+[{lower}]*{short}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
    path, first = folder("kimi_tiktoken"), len(ranks)
    (path / "tiktoken.model").write_bytes(lines)
    named = {
        first: SPECIAL[0],
        first + 2: SPECIAL[1],
        first + 7: SPECIAL[2],
        first + 20: "<think>",
        first + 21: "</think>",
    }
    added = {str(n): {"content": text, "special": text in SPECIAL, "normalized": False} for n, text in named.items()}
    write(path / "tokenizer_config.json", {"added_tokens_decoder": added, "bos_token": SPECIAL[0]})
    special = {named.get(n, f"<|reserved_token_{n}|>"): n for n in range(first, first + 256)}
    encoding = tiktoken.Encoding("kimi", pat_str="|".join(split), mergeable_ranks=ranks, special_tokens=special)
    marked = [encoding.encode(text, allowed_special="all") for text in MARKED]
    expect(path, [encoding.encode_ordinary(text) for text in TEXTS], marked)


def tekken() -> None:
    """A tekken.json with more entries than its vocabulary has; by transformers' converter."""
    path = folder("tekken")
    letters = {letter: byte for byte, letter in _spelling().items()}
    vocab = sorted(bpe().get_vocab().items(), key=lambda item: item[1])
    tokens = [bytes(letters[char] for char in text) for text, _ in vocab]
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_start|>", "<|im_end|>"]
    data = {
        "config": {"pattern": TEKKEN, "default_vocab_size": 480, "default_num_special_tokens": 10},
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
        "special_tokens": [{"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(special)],
    }
    write(path / "tekken.json", data)
    reference = MistralConverter(str(path / "tekken.json")).converted()
    plain, marked = ([reference.encode(text).ids for text in texts] for texts in (TEXTS, MARKED))
    expect(path, plain, [[1, *ids] for ids in marked])  # mistral-common puts BOS first


def _spelling() -> dict[int, str]:
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return bytes_to_unicode()


def sentencepiece_files() -> None:
    """Models of SentencePiece: Llama's settings, Gemma's, and a unigram one that rewrites characters."""
    rules = folder("unigram") / "rules.tsv"
    rules.write_text("FB01\t66 69\t# fi\n2460\t31\t# 1 in a circle\nA0\t20\n", encoding="utf-8")
    kinds: dict[str, dict[str, Any]] = {
        "llama_model": {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "vocab_size": 700,
            "control_symbols": ["<|im_start|>", "<|im_end|>"],
        },
        "gemma_model": {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "add_dummy_prefix": False,
            "split_digits": True,
            "vocab_size": 720,
            "control_symbols": ["<|im_start|>", "<|im_end|>"],
            "user_defined_symbols": ["\n", "\n\n", "\n\n\n", "<think>", "</think>"],
        },
        "unigram": {
            "model_type": "unigram",
            "normalization_rule_tsv": str(rules),
            "vocab_size": 320,
            "user_defined_symbols": ["<think>", "</think>"],
            "control_symbols": ["<|im_start|>", "<|im_end|>"],
        },
    }
    for name, settings in kinds.items():
        path = HERE / name if name == "unigram" else folder(name)
        data = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS),
            model_writer=data,
            character_coverage=1.0,
            hard_vocab_limit=False,
            **settings,
        )
        (path / "tokenizer.model").write_bytes(data.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=data.getvalue())
        write(path / "tokenizer_config.json", {"add_bos_token": False})
        # only the library of the model says what its plain texts are; for marked ones see the test
        expect(path, [processor.encode(text) for text in TEXTS], [])
    rules.unlink()
    path = HERE / "llama_model"
    reference = LlamaTokenizer.from_pretrained(path, legacy=False, add_bos_token=True)
    marked = [reference.encode(text) for text in MARKED]
    expected = json.loads((path / "expected.json").read_text(encoding="utf-8"))
    write(path / "expected.json", {**expected, "marked": marked})


def expect(path: Path, texts: list[list[int]], marked: list[list[int]]) -> None:
    """The ids that the reference gives."""
    write(path / "expected.json", {"texts": texts, "marked": marked})


if __name__ == "__main__":
    tokenizer_json()
    vocab_and_merges()
    tiktoken_files()
    tekken()
    sentencepiece_files()
