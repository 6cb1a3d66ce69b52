"""GOT-OCR 2.0 beside parity: SAM's attention by its definition, questions and prompts, published names, answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from mlx.utils import tree_flatten  # noqa: E402

from docai.batch.work import Job, run_job  # noqa: E402
from docai.checkpoint.checkpoint import Checkpoint  # noqa: E402
from docai.checkpoint.load import map_weights, shapes_of  # noqa: E402
from docai.checkpoint.recipes import RECIPES, later_family  # noqa: E402
from docai.checkpoint.tensors import TensorInfo  # noqa: E402
from docai.errors import CheckpointError, UsageError  # noqa: E402
from docai.export.options import ExportOptions  # noqa: E402
from docai.nn.mlp import MlpSpec  # noqa: E402
from docai.nn.sam import Sam, SamAttention, SamSpec, from_windows, in_windows  # noqa: E402
from docai.tasks.ocr import pages_reader  # noqa: E402
from docai.tasks.options import OcrOptions  # noqa: E402
from docai.vlm.ask import Setting  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.got import FORMATTED, PLAIN, asked, place  # noqa: E402
from docai.vlm.images import cut_images  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import Model, open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.prompt import expand, render  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.goldens.got.cases import CASES, PREP, Asked  # noqa: E402
from tests.goldens.processors.cases import picture  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written  # noqa: E402
from tests.parity.weights import noise  # noqa: E402
from tests.tiny_checkpoint import byte_level, tiny_falcon, tiny_qwen2_vl  # noqa: E402
from tests.tiny_documents import tiny_got  # noqa: E402

PROMPTS: dict[str, str] = json.loads((Path(__file__).parent / "goldens" / "got" / "prompts.json").read_text())
LAYOUTS = ("GOT", "got_ocr2")


# --- the tower, by its definition


@pytest.mark.parametrize("budget", [1, 1 << 30], ids=["row by row", "at once"])
def test_queries_score_the_rows_and_columns_between(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docai.nn.sam._SCORE_BYTES_CPU", budget)
    side, heads, dims = 3, 2, 8
    spec = SamSpec(dims, 1, heads, MlpSpec(8), side, 1, 4)
    layer, n, d = SamAttention(spec, side), side * side, dims // heads
    made = {name: noise(name, array.shape, 1) for name, array in tree_flatten(layer.parameters())}
    layer.load_weights([(name, mx.array(array)) for name, array in made.items()])
    x = noise("x", (2, n, dims), 1)
    q, k, v = (x @ made[f"{p}.weight"].T + made[f"{p}.bias"] for p in "qkv")
    out = np.empty_like(x)
    for b, head, query in product(range(2), range(heads), range(n)):
        part = slice(head * d, (head + 1) * d)
        scores = np.empty(n)
        for key in range(n):
            down, across = query // side - key // side, query % side - key % side
            placed = made["rows"][down + side - 1] + made["columns"][across + side - 1]
            scores[key] = q[b, query, part] @ (k[b, key, part] * d**-0.5 + placed)
        weights = np.exp(scores - scores.max())
        out[b, query, part] = weights / weights.sum() @ v[b, :, part]
    expected = out @ made["o.weight"].T + made["o.bias"]
    np.testing.assert_allclose(np.array(layer(mx.array(x))), expected, atol=2e-5)
    layer.fuse()
    np.testing.assert_allclose(np.array(layer(mx.array(x))), expected, atol=2e-5)


@pytest.mark.parametrize("size", [(6, 6), (7, 5), (4, 9)])
def test_windows_are_filled_up_and_put_back(size: tuple[int, int]) -> None:
    x = mx.array(noise("x", (2, *size, 3), 1))
    windows = in_windows(x, 3)
    assert windows.shape == (2 * -(-size[0] // 3) * -(-size[1] // 3), 9, 3)
    np.testing.assert_array_equal(np.array(from_windows(windows, 3, x.shape)), np.array(x))
    first = np.array(x)[0, :3, :3].reshape(9, 3)
    np.testing.assert_array_equal(np.array(windows)[0], first)


def test_pictures_of_another_size_are_the_checkpoint_s_fault() -> None:
    tower = Sam(SamSpec(8, 1, 2, MlpSpec(8), 16, 4, 4, window=2))
    with pytest.raises(CheckpointError, match="expects pictures of 16 x 16 px, got 16 x 12"):
        tower.encode(mx.zeros((1, 12, 16, 3)))


# --- questions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PLAIN), ("OCR:", PLAIN), ("ocr", PLAIN), ("plain", PLAIN), ("format", FORMATTED),
        (" OCR with format ", FORMATTED), ("[1,2, 300,1000]", "[1, 2, 300, 1000] OCR: "),
        ("[7, 8] format", "[7, 8] OCR with format: "), ("[Red] OCR with format:", "[red] OCR with format: "),
        ("OCR with format across multi pages: ", "OCR with format across multi pages: "),
        ("OCR upon the patch reference:", "OCR upon the patch reference: "),
        ("What is the total? [see below]", "What is the total? [see below]"),
    ],
)  # fmt: skip
def test_questions_are_brought_into_the_words_that_were_taught(text: str, expected: str) -> None:
    assert asked(text, Setting()) == expected
    assert asked(expected, Setting()) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[0, 0, 1001, 5] OCR: ", "box: expected numbers from 0 to 1000"),
        ("[-1, 0, 10, 5] format", "box: expected numbers from 0 to 1000"),
        ("[5, 0, 5, 9] OCR", "box: expected x1 < x2 and y1 < y2"),
        ("[1, 2, 3] OCR", "box: expected x1, y1, x2, y2, or the x, y of a point"),
        ("[1,,2] OCR", "box: expected x1, y1, x2, y2"),
        ("[pink] OCR", "colour: expected red, green, blue; got"),
        ("[red] [blue] OCR", "one place and one colour at most"),
    ],
)
def test_places_and_colours_that_there_are_not_are_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)) as error:
        asked(text, Setting())
    assert "\n" not in str(error.value)


def our_question(said: Asked) -> str:
    """A case's question as a user writes it; the box in thousandths of the picture."""
    height, width = said.sizes[0]
    marks = f"[{said.colour}]" if said.colour else ""
    if said.box:
        marks += place([int(n / edge * 1000) for n, edge in zip(said.box, (width, height) * 2, strict=True)])
    return f"{marks} {'format' if said.formatted else 'OCR'}"


def prompt(kind: str, said: Asked) -> str:
    spec, setting = family_of({"model_type": kind}).prompt, Setting(said.pages, said.crops)
    parts = [*({"type": "image"} for _ in said.sizes), {"type": "text", "text": our_question(said)}]
    text = render([{"role": "user", "content": parts}], Tokenizer(byte_level()), spec, setting=setting)
    prep: Mapping[str, Any] = {**PREP, "crop_to_patches": said.crops}
    processor = cut_images()(prep, {"vision_config": {"patch_size": 1}})  # so that a crop takes 256 tokens
    whole = expand(text, [processor(picture(size)) for size in said.sizes], spec)
    return re.sub(r"(?:<imgpad>)+", lambda run: f"<imgpad*{len(run[0]) // len('<imgpad>')}>", whole)


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_those_of_transformers(name: str) -> None:
    assert prompt("got_ocr2", CASES[name]) == PROMPTS[name]


@pytest.mark.parametrize("name", CASES)
def test_the_published_code_indents_and_writes_no_space_too_many(name: str) -> None:
    theirs = PROMPTS[name].replace("system\nYou", "system\n        You").replace("\n OCR", "\nOCR")
    assert prompt("GOT", CASES[name]) == theirs.replace("]  OCR", "] OCR")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_conversation_is_fixed(kind: str) -> None:
    turns = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "OCR: "}]},
    ]
    spec, words = family_of({"model_type": kind}).prompt, Tokenizer(byte_level(), chat_template="not for this model")
    assert render(turns, words, spec) == render(turns[1:], words, spec)
    assert "be brief" not in render(turns, words, spec)


# --- a checkpoint with its tiktoken vocabulary


@pytest.fixture(scope="module", params=[False, True], ids=["published", "converted"])
def got(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_model(str(tiny_got(tmp_path_factory.mktemp("got"), converted=request.param)))


def ids_of(model: Model, question: str, count: int = 1, **options: Any) -> list[str | None]:
    from docai.vlm.clips import question_of
    from docai.vlm.request import GenerationOptions

    pages = [picture((90 + n, 70)) for n in range(count)]
    request = model.request([question_of(count, question)], pages, GenerationOptions(**options))
    return [model.tokenizer.token(number) for number in request.ids]


def test_answers_end_at_both_tokens(got: Model) -> None:
    assert {got.tokenizer.token_id(token) for token in ("<|im_end|>", "<|endoftext|>")} <= got.tokenizer.stops


def test_an_image_takes_its_place(got: Model) -> None:
    tokens = ids_of(got, "OCR: ")
    assert tokens[0] == "<|im_start|>"
    assert tokens.count("<imgpad>") == 16
    assert tokens[tokens.index("<img>") + 17] == "</img>"
    assert tokens.count("<|im_end|>") == 2


def test_crops_and_pages_are_read_where_they_are_asked_for(got: Model) -> None:
    cut = ids_of(got, "format", crop_to_patches=True)
    assert cut.count("<imgpad>") == 16 * (4 * 3 + 1)  # 90 x 70 is nearest to 4 x 3; then the whole
    pages = ids_of(got, "format", 3, multi_page=True)
    assert (pages.count("<imgpad>"), pages.count("<img>")) == (48, 1)


def test_one_image_is_read_at_a_time(got: Model) -> None:
    with pytest.raises(UsageError, match="reads one image at a time; got 2; --multi-page reads several"):
        got.generate("OCR: ", [picture((90, 70)), picture((70, 90))])


def test_a_bad_box_is_refused_before_anything_is_run(got: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(got.network), "encode", lambda *_: pytest.fail("it ran"))
    with pytest.raises(UsageError, match="from 0 to 1000"):
        got.generate("[0, 0, 2000, 5] OCR: ", [picture((90, 70))])


def test_it_answers(got: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 12, "loop_guard": False}
    whole = got.generate("OCR: ", [picture((90, 70))], **options)
    assert whole.image_tokens == 16
    parts = got.generate("OCR: ", [picture((90, 70))], prefill_step=16, **options)
    assert whole.tokens == parts.tokens
    assert got.generate("[red] OCR: ", [picture((90, 70))], **options).prompt_tokens > whole.prompt_tokens


def test_twenty_tokens_are_never_repeated(got: Model) -> None:
    from docai.vlm.request import GenerationOptions

    message = [{"role": "user", "content": "OCR: "}]
    assert got.request(message, [], GenerationOptions()).options.no_repeat_ngram == 20
    assert got.request(message, [], GenerationOptions(no_repeat_ngram=3)).options.no_repeat_ngram == 3


def test_other_models_say_that_they_cannot(tmp_path: Path) -> None:
    qwen, falcon = open_model(str(tiny_qwen2_vl(tmp_path / "q"))), open_model(str(tiny_falcon(tmp_path / "f")))
    rgb = picture((64, 64))
    with pytest.raises(UsageError, match=r"multi_page: .* reads no images as the pages of one text"):
        qwen.generate("x", [rgb, rgb], multi_page=True)
    with pytest.raises(UsageError, match=r"crop_to_patches: .* cuts no image"):
        qwen.generate("x", [rgb], crop_to_patches=True)
    with pytest.raises(UsageError, match=r"reads one image at a time; got 2$"):
        falcon.generate("text", [rgb, rgb])


# --- published checkpoints

# config.json of stepfun-ai/GOT-OCR2_0, as far as it is read
PUBLISHED = {
    "model_type": "GOT", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 24,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151_860, "rms_norm_eps": 1e-6,
    "rope_theta": 1e6, "max_position_embeddings": 32_768, "tie_word_embeddings": True, "im_patch_token": 151_859,
}  # fmt: skip
NORMS = {f"{name}.{part}": (768,) for name in ("norm1", "norm2") for part in ("weight", "bias")}
BLOCK = {
    **NORMS, "attn.qkv.weight": (2304, 768), "attn.qkv.bias": (2304,), "attn.proj.weight": (768, 768),
    "attn.proj.bias": (768,), "mlp.lin1.weight": (3072, 768), "mlp.lin1.bias": (3072,), "mlp.lin2.weight": (768, 3072),
    "mlp.lin2.bias": (768,),
}  # fmt: skip
TOWER = {
    "pos_embed": (1, 64, 64, 768), "patch_embed.proj.weight": (768, 3, 16, 16), "patch_embed.proj.bias": (768,),
    "neck.0.weight": (256, 768, 1, 1), "neck.1.weight": (256,), "neck.1.bias": (256,),
    "neck.2.weight": (256, 256, 3, 3), "neck.3.weight": (256,), "neck.3.bias": (256,),
    "net_2.weight": (512, 256, 3, 3), "net_3.weight": (1024, 512, 3, 3),
    **{f"blocks.{n}.{name}": shape for n in range(12) for name, shape in BLOCK.items()},
    **{
        f"blocks.{n}.attn.rel_pos_{axis}": (127 if n in (2, 5, 8, 11) else 27, 64) for n in range(12) for axis in "hw"
    },
}  # fmt: skip
LAYER = {
    **{f"self_attn.{x}_proj.weight": (1024, 1024) for x in "qkvo"},
    **{f"self_attn.{x}_proj.bias": (1024,) for x in "qkv"},
    "mlp.gate_proj.weight": (2816, 1024), "mlp.up_proj.weight": (2816, 1024), "mlp.down_proj.weight": (1024, 2816),
    "input_layernorm.weight": (1024,), "post_attention_layernorm.weight": (1024,),
}  # fmt: skip
NAMES = {
    "model.embed_tokens.weight": (151_860, 1024), "lm_head.weight": (151_860, 1024), "model.norm.weight": (1024,),
    "model.mm_projector_vary.weight": (1024, 1024), "model.mm_projector_vary.bias": (1024,),
    **{f"model.vision_tower_high.{name}": shape for name, shape in TOWER.items()},
    **{f"model.layers.{n}.{name}": shape for n in range(24) for name, shape in LAYER.items()},
}  # fmt: skip


def test_the_published_model_is_whole() -> None:
    family = family_of(PUBLISHED)
    spec = family.spec(Config(PUBLISHED))
    network = Network(spec)  # nothing is evaluated
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == 560_528_640
    tensors = {name: TensorInfo("BF16", shape) for name, shape in NAMES.items()}
    checkpoint = Checkpoint("got", Path("nowhere"), PUBLISHED, (), tensors)
    assert map_weights(checkpoint, family.rules, spec, shapes_of(network)).dialect == "hf"


def test_both_configs_describe_it() -> None:
    text = {name: value for name, value in PUBLISHED.items() if name not in ("model_type", "im_patch_token")}
    converted = {"model_type": "got_ocr2", "text_config": {**text, "model_type": "qwen2"}, "image_token_index": 151_859}
    spec = family_of(PUBLISHED).spec(Config(PUBLISHED))
    assert family_of(converted).spec(Config(converted)) == spec
    for bare in ({"model_type": "GOT", "vision_config": {}}, {"model_type": "got_ocr2"}):
        assert family_of(bare).spec(Config(bare)) == spec


def test_a_tower_of_another_kind_is_refused() -> None:
    config = {"model_type": "got_ocr2", "vision_config": {"use_rel_pos": False}}
    with pytest.raises(CheckpointError, match="use_rel_pos cannot be off"):
        family_of(config).spec(Config(config))
    config = {"model_type": "got_ocr2", "vision_config": {"image_size": [1024, 512]}}
    with pytest.raises(CheckpointError, match="expected squares"):
        family_of(config).spec(Config(config))


@pytest.mark.parametrize("variant", ["", "original", "mlx"])
@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_exports_load(variant: str, bits: int, tmp_path: Path) -> None:
    config, tokens, images = config_of("got_ocr2", variant), case_of("got_ocr2")["tokens"], images_of("got_ocr2")
    weights = weights_of("got_ocr2", variant)
    weights.pop("lm_head.weight", None)
    packed, plain = quantized(
        weights, bits, 32, dense=lambda name: any(part in name for part in ("vision", "projector"))
    )
    assert any(name.endswith(".scales") for name in packed)
    how = {"quantization": {"group_size": 32, "bits": bits}}
    ours = load_network(written(tmp_path / "packed", {**config, **how}, packed))
    expected = logits(load_network(written(tmp_path / "plain", config, plain)), tokens, images)
    np.testing.assert_allclose(logits(ours, tokens, images), expected, rtol=1e-3, atol=1e-3)


def test_its_short_name_is_known() -> None:
    assert RECIPES["got-ocr"].repo == "stepfun-ai/GOT-OCR2_0"
    assert later_family("GOT") is later_family("got_ocr2") is None


# --- docai ocr

ARTICLE = Path(__file__).parents[1] / "samples" / "article.pdf"


def ocr(*words: object) -> int:
    from docai.cli.app import main

    with pytest.raises(SystemExit) as ended:
        main(["ocr", *map(str, words)])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_got(tmp_path_factory.mktemp("ocr"))


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is asked: the words and the number of pictures."""
    asked: list[tuple[str, int]] = []
    request = Model.request

    def listening(self: Model, messages: Any, images: Any, options: Any, **more: Any) -> Any:
        asked.append((messages[-1]["content"][-1]["text"], len(images)))
        return request(self, messages, images, options, **more)

    monkeypatch.setattr(Model, "request", listening)
    return asked


def test_pages_are_read_as_one_text(
    folder: Path, questions: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    ocr(ARTICLE, "-m", folder, "--multi-page", "--crop-to-patches", "--max-tokens", 6, "-f", "json", "--guard", "off")
    assert questions == [("OCR with format:", 2)]
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert len(pages) == 2
    assert pages[1]["outcome"]["status"] == "ok"
    assert pages[1]["outcome"]["reasons"] == ["read as one text with page 1"]


def test_its_own_words_about_all_pages(
    folder: Path, questions: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ocr(ARTICLE, "-m", folder, "--multi-page", "--max-tokens", 6, "-f", "raw") == 0
    assert questions == [("OCR with format:", 2)]
    assert capsys.readouterr().out


def test_pages_are_read_one_by_one_otherwise(folder: Path, questions: list[tuple[str, int]]) -> None:
    ocr(ARTICLE, "-m", folder, "--max-tokens", 6, "--guard", "off", "--task", "[red] format")
    assert questions == [("[red] format", 1)] * 2


def test_a_job_of_a_folder_run_reads_pages_as_one_text(
    folder: Path, questions: list[tuple[str, int]], tmp_path: Path
) -> None:
    options = OcrOptions(model=str(folder), multi_page=True, max_tokens=6, guard="off")
    out, journal = str(tmp_path / "article"), str(tmp_path / "journal")
    (tmp_path / "journal" / "pages").mkdir(parents=True)
    job = Job(str(ARTICLE), None, "article.pdf", out, ("json",), options, ExportOptions(), journal, "key", most=1)
    done = run_job(job, lambda _: None)
    assert done is not None
    assert done.statuses == {"ok": 2}
    assert questions == [("OCR with format:", 2)]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--task", "[0, 0, 2000, 5] OCR"], "box: expected numbers from 0 to 1000"),
        (["--task", "summary"], "task: expected plain or format, before them [x1, y1, x2, y2]"),
        (["--prompt", "[pink] OCR with format: "], "colour: expected red, green, blue"),
        (["--multi-page", "--layout", "embedded"], "multi_page: reads whole pages"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(
    folder: Path, words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ocr(ARTICLE, "-m", folder, *words) == 2
    said = capsys.readouterr().err.strip()
    assert what in said
    assert "\n" not in said


def test_pages_as_one_text_have_no_regions_whatever_the_model() -> None:
    """Told before the model is loaded."""
    with pytest.raises(UsageError, match="multi_page: reads whole pages; leave --layout out"):
        pages_reader(OcrOptions(model="no/such", multi_page=True, layout="embedded"))


@pytest.mark.parametrize("option", ["--multi-page", "--crop-to-patches"])
def test_engines_read_page_by_page(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ocr(ARTICLE, option) == 2
    assert "is an engine, which reads all text as it is; name a model" in capsys.readouterr().err
