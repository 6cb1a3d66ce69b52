"""Encoder-decoder models as users meet them: prompts, pictures, answers as they come, limits."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlx.core")

from docai.checkpoint.load import shapes_of
from docai.errors import LimitExceeded, UsageError
from docai.tasks.load import load
from docai.vlm.controls import CHOICES, DEFAULT
from docai.vlm.encdec_generate import EndPieces
from docai.vlm.encdec_model import EncDecModel, completed
from docai.vlm.markers import ADDED_TOKENS, MARKERS, marked
from docai.vlm.model import Model, as_messages
from docai.vlm.request import GenerationOptions
from docai.vlm.stream import Detokenizer
from docai.vlm.tokenizer import Tokenizer
from tests.commands import run
from tests.tiny_checkpoint import tiny_llama
from tests.tiny_encdec import CONTROLS, tiny_florence2, tiny_nemotron

PICTURE = np.random.RandomState(3).randint(0, 256, (70, 50, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def florence(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(str(tiny_florence2(tmp_path_factory.mktemp("florence2"))))


@pytest.fixture(scope="module")
def nemotron(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(str(tiny_nemotron(tmp_path_factory.mktemp("nemotron"))))


# --- Florence-2's markers


@pytest.mark.parametrize("name", MARKERS)
def test_markers_are_known_with_and_without_brackets_in_any_case(name: str) -> None:
    marker = MARKERS[name]
    text = "" if not marker.takes_text else "<loc_1><loc_2><loc_3><loc_4>" if marker.region else "a green car"
    for written in (f"<{name}>{text}", f" <{name.lower()}> {text}\n", f"<{name.title()}>{text}"):
        assert marked(written) == (marker, text)
    if "_" in name or not text:
        assert marked(f"{name.lower()} {text}".strip()) == (marker, text)


def test_there_are_fifteen_of_which_seven_take_text() -> None:
    assert (len(MARKERS), sum(marker.takes_text for marker in MARKERS.values())) == (15, 7)


@pytest.mark.parametrize("text", ["What is this?", "caption this picture", "OCR is hard", "a <OD> b", "<loc_5> here"])
def test_words_are_no_markers(text: str) -> None:
    assert marked(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<FOO>", "expected one of OCR, OCR_WITH_REGION"),
        ("<OD> a cat", "takes no text"),
        ("<OPEN_VOCABULARY_DETECTION>", "needs a text"),
        ("<REGION_TO_OCR>", "needs the region's <loc_left>"),
        ("<REGION_TO_OCR><loc_1><loc_2>", "needs four"),
        ("", "expected a task"),
        ("a" * 1025, "at most 1024 bytes; got 1025"),
        ("a\x07b", r"U\+0007"),
    ],
)
def test_prompts_that_florence_was_not_taught(florence: Model, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        florence.generate(text, [PICTURE])


def test_the_prompt_is_the_sentence_within_its_ends(florence: Model) -> None:
    asked = florence.family.asked
    assert asked is not None
    prompt = asked("<region_to_ocr><loc_0><loc_1><loc_2><loc_999>", florence.tokenizer).prompt
    text = "<s>What text is in the region <loc_0><loc_1><loc_2><loc_999>?</s>"
    assert florence.tokenizer.decode(prompt, skip_special=False) == text
    ids = [florence.tokenizer.token_id(f"<loc_{n}>") for n in (0, 1, 2, 999)]
    assert [token for token in prompt if token in ids] == ids


def test_tokens_that_a_tokenizer_lacks_come_behind_its_vocabulary(tmp_path: Path) -> None:
    from docai.checkpoint.checkpoint import read_checkpoint

    bare = Tokenizer.from_checkpoint(read_checkpoint(tiny_florence2(tmp_path)))
    size = bare.size
    whole = completed(bare, ADDED_TOKENS)
    assert [whole.token_id(name) for name in ADDED_TOKENS] == list(range(size, size + 1024))
    assert completed(whole, ADDED_TOKENS).size == size + 1024


def test_answers_begin_as_the_model_was_taught(florence: Model) -> None:
    answer = florence.generate("<OCR>", [PICTURE], max_tokens=5)
    assert answer.tokens[0] == florence.tokenizer.token_id("<s>")
    assert "<s>" not in answer.text
    assert florence.generate("<OCR>", [PICTURE], max_tokens=5, special_tokens=True).text.startswith("<s>")


def test_an_answer_of_nothing_but_beginnings_is_empty(florence: Model) -> None:
    """Conversions of large-ft are known for it."""
    begin = florence.tokenizer.token_id("<s>")
    answer = florence.generate("<OCR>", [PICTURE], max_tokens=9, logit_bias={begin: 1000.0}, loop_guard=False)
    assert answer.tokens.count(begin) > 1
    said = florence.generate("<OCR>", [PICTURE], max_tokens=2, logit_bias={begin: 1000.0})
    assert (said.tokens, said.text) == ((begin, begin), "")


@pytest.mark.parametrize("said", [{}, {"forced_bos_token_id": None}])
def test_a_config_need_not_say_how_answers_begin(tmp_path: Path, said: dict[str, None]) -> None:
    """transformers 5 leaves it out."""
    model = load(str(tiny_florence2(tmp_path, **said)))
    assert model.generate("<OCR>", [PICTURE], max_tokens=3).tokens[0] == model.tokenizer.token_id("<s>")


def test_locations_are_text(florence: Model) -> None:
    location = florence.tokenizer.token_id("<loc_7>")
    answer = florence.generate("<OD>", [PICTURE], max_tokens=4, logit_bias={location: 1000.0}, no_repeat_ngram=0)
    assert answer.text == "<loc_7>" * 3


def test_the_same_picture_is_encoded_once(florence: Model) -> None:
    florence.clear()
    first = florence.generate("<OD>", [PICTURE], max_tokens=6)
    again = florence.generate("<OD>", [PICTURE], max_tokens=6)
    assert first.tokens == again.tokens
    assert (first.usage.cached_images, again.usage.cached_images) == (0, 1)
    assert again.usage.prompt > again.usage.images == 10  # 3 x 3 places and their mean


def test_sampling_makes_no_difference(florence: Model) -> None:
    greedy = florence.generate("<CAPTION>", [PICTURE], max_tokens=6)
    assert florence.generate("<CAPTION>", [PICTURE], max_tokens=6, temperature=5.0, seed=3).tokens == greedy.tokens
    assert greedy.seed is None


def test_an_answer_comes_in_pieces_and_can_be_ended(florence: Model) -> None:
    whole = florence.generate("<CAPTION>", [PICTURE], max_tokens=30, loop_guard=False)
    stream = florence.stream("<CAPTION>", [PICTURE], max_tokens=30, loop_guard=False)
    assert "".join(piece.text for piece in stream) == whole.text
    assert stream.result.text == whole.text
    half = florence.stream("<CAPTION>", [PICTURE], max_tokens=30, loop_guard=False)
    next(half)
    half.close()
    assert half.result.finish_reason == "cancelled"
    assert 0 < len(half.result.tokens) < 30


def test_beams_find_an_answer_as_likely_as_the_greedy_one(florence: Model) -> None:
    greedy = florence.generate("<CAPTION>", [PICTURE], max_tokens=8)
    beams = florence.generate("<CAPTION>", [PICTURE], max_tokens=8, beams=3)
    assert beams.tokens[0] == greedy.tokens[0]
    assert beams.finish_reason in ("stop", "length")


def test_logprobs_and_stop_strings(florence: Model) -> None:
    answer = florence.generate("<CAPTION>", [PICTURE], max_tokens=4, logprobs=2)
    assert answer.logprobs is not None
    assert [len(one.top) for one in answer.logprobs] == [2] * 4
    assert all(one.logprob <= one.top[0][2] + 1e-6 for one in answer.logprobs)


@pytest.mark.parametrize("count", [0, 2])
def test_one_picture_a_question(florence: Model, nemotron: Model, count: int) -> None:
    for model, prompt in ((florence, "<OD>"), (nemotron, DEFAULT)):
        with pytest.raises(UsageError, match=f"one image at a time; got {count}"):
            model.generate(prompt, [PICTURE] * count)


def test_a_prompt_that_is_too_long(tmp_path: Path) -> None:
    model = load(str(tiny_florence2(tmp_path, max_position_embeddings=60)))
    with pytest.raises(LimitExceeded, match="reads 60 in all"):
        model.generate("What is the name of the ship behind the harbour wall? " * 2, [PICTURE])
    answer = model.generate("<OCR>", [PICTURE], max_tokens=500, loop_guard=False)
    assert (answer.finish_reason, len(answer.tokens)) == ("length", 59)


def test_no_json_and_no_beams_where_there_are_none(florence: Model, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="json_schema"):
        florence.generate("<OD>", [PICTURE], json_schema="{}")
    with pytest.raises(UsageError, match="beams"):
        load(str(tiny_llama(tmp_path))).generate("Hello", beams=2)


def test_only_the_last_question_counts(florence: Model) -> None:
    picture = {"type": "image"}
    turns = [
        {"role": "user", "content": [picture, {"type": "text", "text": "<OD>"}]},
        {"role": "assistant", "content": "a cat"},
        {"role": "user", "content": "<OCR>"},
    ]
    assert florence.generate(turns, [PICTURE], max_tokens=5).tokens == (
        florence.generate("<OCR>", [PICTURE], max_tokens=5).tokens
    )


def test_the_3_gram_ban_of_a_checkpoint(tmp_path: Path) -> None:
    folder = tiny_florence2(tmp_path)
    (folder / "generation_config.json").write_text('{"no_repeat_ngram_size": 3, "num_beams": 3}')
    model = load(str(folder))
    tokens = model.generate("<OD>", [PICTURE], max_tokens=60, loop_guard=False).tokens
    triples = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    assert len(triples) == len(set(triples))


def test_large_ft_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load(str(tiny_florence2(tmp_path / "Florence-2-large-ft")))
    assert "Florence-2-base-ft" in caplog.text


# --- Nemotron-Parse's control tokens


def _seed(model: Model, text: str) -> str:
    assert model.family.asked is not None
    return model.tokenizer.decode(model.family.asked(text, model.tokenizer).seed, skip_special=False)


def test_control_tokens_begin_the_answer(nemotron: Model) -> None:
    assert _seed(nemotron, DEFAULT) == DEFAULT
    answer = nemotron.generate(DEFAULT, [PICTURE], max_tokens=3)
    assert answer.usage.images == 10 * 2 + 1
    assert answer.usage.prompt == answer.usage.images + 6


def test_a_prompt_without_start_gets_it(nemotron: Model) -> None:
    assert isinstance(nemotron, EncDecModel)
    asked = nemotron.family.asked
    assert asked is not None
    seed = nemotron._seed(asked("<predict_bbox><predict_no_text_in_pic>", nemotron.tokenizer))
    assert nemotron.tokenizer.decode(seed, skip_special=False) == "</s><predict_bbox><predict_no_text_in_pic>"


def test_an_empty_prompt_is_the_default_and_said(nemotron: Model, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert nemotron.generate("", [PICTURE], max_tokens=3).tokens == (
            nemotron.generate(DEFAULT, [PICTURE], max_tokens=3).tokens
        )
    assert "empty prompt" in caplog.text


def test_the_default_leaves_out_what_an_older_vocabulary_lacks(tmp_path: Path) -> None:
    older = tuple(name for name in CONTROLS if name not in CHOICES[-1])
    model = load(str(tiny_nemotron(tmp_path, older)))
    for text in ("", DEFAULT):
        assert _seed(model, text) == "</s><s><predict_bbox><predict_classes><output_markdown>"
    assert _seed(model, "<predict_bbox>") == "<predict_bbox>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Read this page.", "control tokens only"),
        (f"{DEFAULT} please", "control tokens only.*got 'please'"),
        ("<predict_bbox><predict_nothing>", "<predict_nothing>"),
        ("<predict_bbox><no_classes><predict_no_text_in_pic>", "<no_classes>"),
        ("<predict_bbox><no_bbox><predict_text_in_pic>", "do not go together"),
        ("<predict_text_in_pic><predict_text_in_pic>", "do not go together"),
        ("<predict_bbox>", "expected one of <predict_no_text_in_pic>"),
        ("<predict_bbox>" * 80, "at most 1024 bytes"),
    ],
)
def test_prompts_that_nemotron_was_not_taught(nemotron: Model, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        nemotron.generate(text, [PICTURE])


@pytest.mark.parametrize("penalty", [1.1, 3.0])
def test_the_repetition_penalty_counts_what_the_answer_begins_with(nemotron: Model, penalty: float) -> None:
    """As transformers has it: scores above 0 are divided, others multiplied, over prompt and answer."""
    import mlx.core as mx

    assert isinstance(nemotron, EncDecModel)
    answer = nemotron.generate(DEFAULT, [PICTURE], max_tokens=12, repetition_penalty=penalty, loop_guard=False)
    asked = nemotron.answer(as_messages(DEFAULT, 1), [PICTURE], GenerationOptions())
    network, memories, caches = nemotron.network, asked.read(), nemotron.network.caches()
    said = list(asked.asked.seed)
    logits = network.step(mx.array([said]), caches, memories)
    for token in answer.tokens:
        scores = np.array(logits[0])
        seen = sorted(set(said))
        scores[seen] = np.where(scores[seen] > 0, scores[seen] / penalty, scores[seen] * penalty)
        assert token == int(scores.argmax())
        said.append(token)
        logits = network.step(mx.array([[token]]), caches, memories)


def test_letters_of_several_tokens_come_whole(nemotron: Model) -> None:
    assert isinstance(nemotron, EncDecModel)
    text = "<x_0.1><y_0.2>\u6e2f\u306e\u65e5\u8a8c \U0001f6a2<x_0.3><y_0.4><class_Text>"
    tokens = nemotron.tokenizer.encode(text, special=False)
    words = Detokenizer(EndPieces(nemotron.tokenizer), skip_special=True)
    parts = [words.add(token) for token in tokens]
    assert "".join([*parts, words.end()]) == text
    assert "" in parts, "some are a part of a letter"
    assert "\ufffd" not in "".join(parts)


def test_the_penalty_counts_what_the_answer_begins_with(nemotron: Model) -> None:
    token = nemotron.tokenizer.token_id("<predict_bbox>")
    bias = {token: 1000.0}
    assert nemotron.generate(DEFAULT, [PICTURE], max_tokens=1, logit_bias=bias).tokens == (token,)
    assert (
        nemotron.generate(DEFAULT, [PICTURE], max_tokens=3, no_repeat_ngram=1, logit_bias=bias).tokens.count(token) == 0
    )


# --- converting


@pytest.mark.parametrize("bits", [None, 8])
def test_converted_models_answer(florence: Model, tmp_path: Path, bits: int | None) -> None:
    folder = tmp_path / "out"
    words = [] if bits is None else ["--bits", str(bits), "--group-size", "32"]
    assert run("models", "convert", florence.name, "-o", str(folder), *words) == 0
    assert run("models", "verify", str(folder)) == 0
    converted = load(str(folder))
    answer = converted.generate("<OD>", [PICTURE], max_tokens=12)
    if bits is None:
        assert answer.tokens == florence.generate("<OD>", [PICTURE], max_tokens=12).tokens
    else:
        packed = {name for name in shapes_of(converted.network) if name.endswith("scales")}
        assert {"encoder.layers.0.mlp.up.scales", "decoder.embed.scales"} <= packed
        assert not any("positions" in name or name.startswith("vision.") for name in packed)


def test_what_is_shown_of_a_model(florence: Model, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("models", "show", florence.name, "--json") == 0
    said = json.loads(capsysbinary.readouterr().out)
    assert (said["family"], said["sees"], said["dialect"]) == ("florence2", True, "docai")
    assert said["memory"]["cache_per_1000_tokens"] == 2 * 3 * 32 * 1000 * 4


# --- several at once


@pytest.mark.parametrize("beams", [1, 2])
def test_pictures_in_step_give_what_each_gives_alone(florence: Model, nemotron: Model, beams: int) -> None:
    pictures = [np.roll(PICTURE, 17 * number, axis=0) for number in range(4)]
    for model, prompt in ((florence, "<DETAILED_CAPTION>"), (nemotron, DEFAULT)):
        assert isinstance(model, EncDecModel)
        options = GenerationOptions(max_tokens=25, beams=beams, logprobs=1, no_repeat_ngram=3)
        together = model.answer_all(prompt, pictures, options)
        for picture, answer in zip(pictures, together, strict=True):
            alone = model.generate(prompt, [picture], max_tokens=25, beams=beams, logprobs=1, no_repeat_ngram=3)
            assert (answer.text, answer.tokens, answer.finish_reason) == (alone.text, alone.tokens, alone.finish_reason)
            assert answer.usage.generated == len(answer.tokens)
        assert model.answer_all(prompt, [], options) == []


def test_answers_in_step_end_each_by_itself(florence: Model, nemotron: Model) -> None:
    """The end is made likelier, so that answers are of different lengths."""
    shapes = [(30 + 9 * number, 50 + 5 * number, 3) for number in range(6)]
    pictures = [np.random.RandomState(n).randint(0, 256, shape).astype(np.uint8) for n, shape in enumerate(shapes)]
    for model, prompt, likelier in ((florence, "<OD>", 2.5), (nemotron, DEFAULT, 3.0)):
        assert isinstance(model, EncDecModel)
        (stop,) = model.tokenizer.stops
        bias = {stop: likelier}
        options = GenerationOptions(max_tokens=30, logit_bias=bias, loop_guard=False, frequency_penalty=0.5)
        together = model.answer_all(prompt, pictures, options)
        alone = [model.answer(as_messages(prompt, 1), [picture], options).whole() for picture in pictures]
        assert [answer.tokens for answer in together] == [answer.tokens for answer in alone]
        assert len({len(answer.tokens) for answer in together}) > 3
