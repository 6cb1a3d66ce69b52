"""Answers of tiny random models: what ends them, what they cost, and that no cache changes them."""

from __future__ import annotations

import gc
import json
import random
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from PIL import Image  # noqa: E402

from docai.errors import DocaiError, InputError, LimitExceeded, UsageError  # noqa: E402
from docai.render.inputs import expand  # noqa: E402
from docai.tasks.caption import Caption, caption, captions_of  # noqa: E402
from docai.tasks.chat import Chat  # noqa: E402
from docai.tasks.options import CaptionOptions, PictureOptions  # noqa: E402
from docai.vlm import reading  # noqa: E402
from docai.vlm.answer import Answer  # noqa: E402
from docai.vlm.model import Model, open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prefix import Span, chunk_ends  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions, Piece  # noqa: E402
from tests.tiny_checkpoint import tiny_llama, tiny_qwen2_vl  # noqa: E402

LONG = " ".join(f"{n} and then comes" for n in range(300))  # some 1600 tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_llama(folder / "llama")
    tiny_llama(folder / "sliding", model_type="mistral", sliding_window=24)
    tiny_llama(folder / "wide", head_dim=32)
    tiny_llama(folder / "short", max_position_embeddings=64)
    tiny_qwen2_vl(folder / "qwen")
    tiny_qwen2_vl(folder / "blind", text_only=True)
    return folder


@pytest.fixture(scope="module")
def llama(folder: Path) -> Model:
    return open_model(str(folder / "llama"), prefix_cache=0)


@pytest.fixture(scope="module")
def qwen(folder: Path) -> Model:
    return open_model(str(folder / "qwen"), feature_cache=0, prefix_cache=0)


@pytest.fixture(scope="module")
def rgb() -> np.ndarray:
    return np.random.RandomState(3).randint(0, 256, (104, 72, 3)).astype(np.uint8)


def by_hand(model: Model, prompt: str, count: int) -> list[int]:
    """Greedy decoding, step by step on the host, without a cache: all of the sequence each time."""
    text = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ids = model.tokenizer.encode(text)
    for _ in range(count):
        network = model.network
        hidden = network.prefill(network.prompt(ids), network.caches())
        ids.append(int(mx.argmax(network.decoder.logits(hidden[0, -1])).item()))
    return ids[-count:]


def test_greedy_answers_are_those_of_the_network(llama: Model) -> None:
    expected = by_hand(llama, "Hello", 12)
    done = llama.generate("Hello", max_tokens=12)
    assert list(done.tokens) == expected
    assert done.text == llama.tokenizer.decode(expected)
    assert (done.finish_reason, done.usage.generated, done.seed) == ("length", 12, None)


def test_pieces_are_the_text_and_whole_characters(llama: Model) -> None:
    stream = llama.stream("Hello", max_tokens=60, temperature=1.5, seed=4)
    pieces = [piece.text for piece in stream]
    assert "".join(pieces) == stream.result.text
    assert len(pieces) > 20


def test_the_same_seed_gives_the_same_answer(llama: Model) -> None:
    def answer(seed: int | None) -> Generation:
        return llama.generate("Hello", max_tokens=20, temperature=1.0, top_p=0.95, seed=seed)

    assert answer(5).tokens == answer(5).tokens
    assert answer(5).tokens != answer(6).tokens
    made = answer(None)
    assert answer(made.seed).tokens == made.tokens


def test_the_next_step_is_queued_before_a_token_is_read(llama: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    step, add = Network.step, Answer.add
    monkeypatch.setattr(Network, "step", lambda *a, **k: (events.append("step"), step(*a, **k))[1])
    monkeypatch.setattr(Answer, "add", lambda *a: (events.append("read"), add(*a))[1])
    llama.generate("Hello", max_tokens=4)
    assert events == ["step", "read", "step", "read", "step", "read", "read"]


def test_a_stop_string_ends_the_answer(llama: Model) -> None:
    whole = llama.generate("Hello", max_tokens=40).text
    stop = whole[7:10]
    done = llama.generate("Hello", max_tokens=40, stop=[stop, "never said"])
    assert done.text == whole[: whole.index(stop)]
    assert done.finish_reason == "stop"


def test_an_end_token_ends_the_answer(llama: Model) -> None:
    (end,) = llama.tokenizer.stops
    done = llama.generate("Hello", max_tokens=40, logit_bias={end: 1000.0})
    assert (done.text, done.tokens, done.finish_reason) == ("", (end,), "stop")


def test_a_loop_ends_the_answer(llama: Model) -> None:
    token = llama.tokenizer.encode("e")[0]
    options = {"max_tokens": 400, "logit_bias": {token: 1000.0}}
    done = llama.generate("Hello", **options)
    assert done.finish_reason == "loop"
    assert 200 < len(done.tokens) < 300
    assert llama.generate("Hello", **options, loop_guard=False).finish_reason == "length"


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(folder: Path) -> None:
    model = open_model(str(folder / "short"))
    with pytest.raises(LimitExceeded, match=r"\d+ tokens.*context is 64"):
        model.stream(LONG)
    done = model.generate("Hello", max_tokens=500)
    assert done.finish_reason == "length"
    assert done.prompt_tokens + len(done.tokens) == 64


def test_image_tokens_are_named_where_they_do_not_fit(qwen: Model) -> None:
    large = np.zeros((128, 128, 3), np.uint8)
    with pytest.raises(LimitExceeded, match=r"\d+ of them for 30 images"):
        qwen.stream("Hello", [large] * 30)


def test_an_image_for_a_model_without_a_tower(folder: Path, rgb: np.ndarray) -> None:
    for name in ("llama", "blind"):
        model = open_model(str(folder / name))
        wanted = f"model {folder / name} was loaded without a vision tower (text-only checkpoint)"
        with pytest.raises(UsageError) as caught:
            model.generate("What is this?", [rgb])
        assert str(caught.value) == wanted
        assert model.generate("Hello", max_tokens=2).tokens


def test_closing_lets_go_of_the_caches(llama: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []

    def watched(*args: Any) -> list[Any]:
        caches = real(*args)
        made.extend(map(weakref.ref, caches))
        return caches

    real = reading.new_caches
    monkeypatch.setattr(reading, "new_caches", watched)
    stream = llama.stream("Hello", max_tokens=3000)
    first = next(stream)
    stream.close()
    assert first.text + "".join(piece.text for piece in stream) == stream.result.text
    assert stream.result.finish_reason == "cancelled"
    assert 0 < len(stream.result.tokens) < 3000
    llama.generate("Hello", max_tokens=1)
    gc.collect()
    assert made
    assert not any(ref() for ref in made)


def test_an_interrupt_leaves_what_was_said(llama: Model) -> None:
    chat, pieces = Chat(llama, GenerationOptions(max_tokens=3000, loop_guard=False)), []

    def interrupted(piece: Piece) -> None:
        pieces.append(piece.text)
        if len(pieces) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat.ask("Hello", interrupted)
    said = chat._turns[-1]["content"]
    assert said.startswith("".join(pieces))
    assert len(llama.tokenizer.encode(said)) < 3000


def test_log_probabilities(llama: Model) -> None:
    done = llama.generate("Hello", max_tokens=5, logprobs=3)
    assert done.logprobs is not None
    assert [lp.token for lp in done.logprobs] == list(done.tokens)
    for said in done.logprobs:
        assert said.top[0][:2] == (said.token, said.text)
        assert said.top[0][2] == pytest.approx(said.logprob)
        assert sum(np.exp([value for *_, value in said.top])) <= 1 + 1e-5
        assert len(said.top) == 3
    pieces = [lp for piece in llama.stream("Hello", max_tokens=5, logprobs=0) for lp in piece.logprobs]
    assert [lp.token for lp in pieces] == list(done.tokens)
    assert llama.generate("Hello", max_tokens=2).logprobs is None


def test_json_by_a_schema(llama: Model) -> None:
    pytest.importorskip("llguidance")
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["invoice", "receipt"]}, "paid": {"type": "boolean"}},
        "required": ["kind", "paid"],
        "additionalProperties": False,
    }
    for temperature in (0.0, 1.0):
        done = llama.generate("Hello", max_tokens=100, json_schema=schema, temperature=temperature, seed=1, logprobs=0)
        said = json.loads(done.text)
        assert said["kind"] in ("invoice", "receipt")
        assert isinstance(said["paid"], bool)
        assert done.finish_reason == "stop"


def test_thinking_is_kept_apart_and_within_its_budget(llama: Model) -> None:
    done = llama.generate("Hello", max_tokens=30, thinking="on", thinking_budget=7)
    assert done.usage.thinking == 7
    assert done.tokens[7] == llama.tokenizer.token_id("</think>")
    assert done.thinking == llama.tokenizer.decode(done.tokens[:7]).strip()
    assert done.text == llama.tokenizer.decode(done.tokens[8:]).lstrip()
    assert llama.generate("Hello", max_tokens=30, thinking="off").usage.thinking == 0


def test_thinking_comes_before_json(llama: Model) -> None:
    pytest.importorskip("llguidance")
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    done = llama.generate("Hello", max_tokens=30, thinking="on", thinking_budget=4, json_schema=schema)
    assert (done.text, done.usage.thinking) == ("{}", 4)


@pytest.mark.parametrize("options", [{"kv_bits": 8}, {"kv_bits": 4}, {"kv_window": 32}, {"prefill_step": 16}])
def test_other_caches_and_steps(folder: Path, options: dict[str, Any]) -> None:
    llama, text = open_model(str(folder / "wide"), prefix_cache=0), LONG[:600]
    first, second = (llama.generate(text, max_tokens=20, **options).tokens for _ in range(2))
    assert first == second
    if "kv_window" not in options and options.get("kv_bits") != 4:
        same = sum(a == b for a, b in zip(first, llama.generate(text, max_tokens=20).tokens, strict=True))
        assert same >= 15


def test_heads_that_cannot_be_rounded(llama: Model) -> None:
    with pytest.raises(UsageError, match="kv_bits"):
        llama.generate("Hello", kv_bits=8)


def test_a_window_forgets(llama: Model) -> None:
    """Only the last tokens count: what stood before them does not change the answer."""
    tail = " the end" * 60
    one, other = (
        llama.generate(start + tail, max_tokens=8, kv_window=16, template=False).tokens for start in ("abc", "xyzabc")
    )
    assert one != llama.generate("abc" + tail, max_tokens=8, template=False).tokens
    assert len(one) == len(other) == 8


def conversation(model: Model, rgb: np.ndarray | None) -> list[Generation]:
    """A question, the same again, another one, and one with a second image."""
    user: list[Any] = [{"type": "image"}] * (rgb is not None) + [{"type": "text", "text": LONG[:300]}]
    first = [{"role": "user", "content": user}]
    images = [] if rgb is None else [rgb]
    options: dict[str, Any] = {"max_tokens": 12, "prefill_step": 64}
    done = [model.generate(first, images, **options), model.generate(first, images, **options)]
    turns = [*first, {"role": "assistant", "content": done[0].text}, {"role": "user", "content": "And now?"}]
    done.append(model.generate(turns, images, **options))
    if rgb is not None:
        more = [*turns[:2], {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "This?"}]}]
        done.append(model.generate(more, [rgb, rgb[::-1].copy()], **options))
        done.append(model.generate(first, [rgb[::-1].copy()], **options))  # another image of the same size
    return done


@pytest.mark.parametrize("name", ["llama", "sliding", "qwen"])
def test_no_cache_changes_an_answer(folder: Path, rgb: np.ndarray, name: str) -> None:
    image = rgb if name == "qwen" else None
    plain = conversation(open_model(str(folder / name), feature_cache=0, prefix_cache=0), image)
    cached = conversation(open_model(str(folder / name)), image)
    assert [done.tokens for done in cached] == [done.tokens for done in plain]
    assert [done.usage.reused for done in plain] == [0] * len(plain)
    assert cached[0].usage.reused == 0
    assert cached[1].usage.reused == cached[1].prompt_tokens
    assert 64 <= cached[2].usage.reused < cached[2].prompt_tokens
    if image is not None:
        assert [done.usage.cached_images for done in cached] == [0, 1, 1, 1, 1]
        assert cached[3].usage.reused > 100
        assert cached[4].usage.reused < 64
        assert cached[4].tokens != cached[0].tokens


def test_a_repeated_turn_is_much_faster(folder: Path, rgb: np.ndarray) -> None:
    model = open_model(str(folder / "qwen"))
    model.generate("Warm up", [rgb[:40].copy()], max_tokens=2)
    first, *again = (model.generate("What is this?", [rgb], max_tokens=2) for _ in range(4))
    assert min(done.timings.first_token_s for done in again) < first.timings.first_token_s / 5  # measured: a tenth
    assert all(done.timings.prepare_s < first.timings.prepare_s for done in again)


def test_images_of_every_form_are_one_image(qwen: Model, folder: Path, rgb: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(rgb).save(path)
    forms: Sequence[Any] = (rgb, path, str(path), path.read_bytes(), Image.open(path))
    answers = {qwen.generate("What?", [form], max_tokens=8).tokens for form in forms}
    assert len(answers) == 1
    usage = qwen.generate("What?", [rgb], max_tokens=1).usage
    assert usage.images == 13 * 9
    assert usage.prompt > usage.images


def test_images_are_made_smaller_where_asked_for(folder: Path) -> None:
    model, large = open_model(str(folder / "qwen")), np.zeros((256, 128, 3), np.uint8)
    tokens = [
        model.generate("What?", [large], max_tokens=1, image_tokens=n).usage.images for n in (None, 100, 20, None)
    ]
    assert tokens[0] == tokens[3] > 100 >= tokens[1] > 20 >= tokens[2]
    assert model.feature_counts.hits == 1


def test_the_feature_cache_counts(folder: Path, rgb: np.ndarray) -> None:
    model = open_model(str(folder / "qwen"), feature_cache=1)
    for image in (rgb, rgb, rgb[:64].copy(), rgb):
        model.generate("What?", [image], max_tokens=1)
    counts = model.feature_counts
    assert (counts.hits, counts.misses, counts.evictions) == (1, 3, 2)


@pytest.mark.parametrize(
    ("image", "error", "says"),
    [
        ("none.png", InputError, "No such file"),
        ("https://example.com/a.png", UsageError, "not fetched"),
        (b"no image", InputError, "not a valid image"),
        (np.zeros((4, 4), np.uint8), UsageError, "H, W, 3"),
        (np.zeros((4, 4, 3)), UsageError, "uint8"),
    ],
)
def test_images_that_are_none(qwen: Model, image: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        qwen.generate("What?", [image])


def test_a_document_is_no_picture(qwen: Model, tiny_pdf: bytes) -> None:
    with pytest.raises(UsageError, match="2 pages"):
        qwen.generate("What?", [tiny_pdf])


def test_missing_and_surplus_images(qwen: Model, rgb: np.ndarray) -> None:
    text = [{"role": "user", "content": "Hello"}]
    with pytest.raises(UsageError, match="1 image"):
        qwen.generate(text, [rgb])
    with pytest.raises(UsageError, match="0 images"):
        qwen.generate([{"role": "user", "content": [{"type": "image"}]}])


def test_chunks_end_at_steps_and_behind_images() -> None:
    assert chunk_ends(10, [], 4) == (4, 8, 10)
    assert chunk_ends(1000, [Span(10, 300)], 2048) == (300, 1000)
    assert chunk_ends(1000, [Span(10, 50), Span(60, 100), Span(110, 300)], 2048) == (300, 1000)
    assert chunk_ends(300, [Span(10, 300)], 2048) == (300,)
    frames = [Span(10, 80), Span(85, 155), Span(160, 230), Span(235, 305)]
    assert chunk_ends(320, [Span(10, 305)], 128, frames) == (85, 160, 235, 320)


def test_no_chunk_ends_within_an_image_whose_tokens_see_each_other() -> None:
    chance = random.Random(2)
    for _ in range(300):
        spans, at = [], 0
        for _ in range(chance.randrange(5)):
            start = at + chance.randrange(40)
            at = start + chance.randrange(1, 200)
            spans.append(Span(start, at))
        length = at + chance.randrange(1, 50)
        ends = chunk_ends(length, spans, chance.randrange(16, 100), spans)
        assert ends[-1] == length
        assert list(ends) == sorted(set(ends))
        assert not any(span.start < end < span.stop for span in spans for end in ends)


def test_many_questions_are_answered_together_and_in_order(
    folder: Path, rgb: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(str(folder / "qwen"))
    asked: list[Any] = [
        ("Hello", []),
        ("What?", [rgb]),
        ("And?", ["none.png"]),
        ([{"role": "user", "content": "A"}], []),
    ]
    asked += [(f"Number {n}", [rgb[: 40 + n]]) for n in range(20)]
    expected = [model.generate(*one, max_tokens=6) for n, one in enumerate(asked) if n != 2]
    model.clear()
    rows: list[int] = []
    step = Network.step
    monkeypatch.setattr(Network, "step", lambda self, tokens, *a: (rows.append(len(tokens)), step(self, tokens, *a))[1])
    done = list(model.generate_many(iter(asked), max_tokens=6))
    assert isinstance(done[2], InputError)
    assert [d.tokens for d in done if not isinstance(d, DocaiError)] == [d.tokens for d in expected]
    assert max(rows) > 2


def test_captions_of_many_files_are_made_together(
    folder: Path, tmp_path: Path, rgb: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(str(folder / "qwen"))
    for number in range(6):
        Image.fromarray(rgb[: 60 + 4 * number]).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_bytes(b"none")
    files = expand([str(tmp_path)])
    how = CaptionOptions(), PictureOptions(), GenerationOptions(max_tokens=8)
    alone = [caption(tmp_path / f"{n}.png", model, max_tokens=8)[0].text for n in (0, 1, 2, 4, 5)]
    rows: list[int] = []
    step = Network.step
    monkeypatch.setattr(Network, "step", lambda self, tokens, *a: (rows.append(len(tokens)), step(self, tokens, *a))[1])
    done = list(captions_of(model, files, *how))
    assert [file.name.rsplit("/", 1)[-1] for file, _ in done] == [f"{n}.png" for n in range(6)]
    assert isinstance(done[3][1], InputError)
    assert [each.text for _, each in done if isinstance(each, Caption)] == alone
    assert max(rows) > 1
