"""LocateAnything beside parity: special operations of MoonViT by definition, prompts, published names, answers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from mlx.utils import tree_flatten  # noqa: E402

import docai  # noqa: E402
from docai.checkpoint.checkpoint import Checkpoint  # noqa: E402
from docai.checkpoint.load import map_weights, shapes_of  # noqa: E402
from docai.checkpoint.recipes import RECIPES, later_family  # noqa: E402
from docai.checkpoint.tensors import TensorInfo  # noqa: E402
from docai.errors import CheckpointError, UsageError  # noqa: E402
from docai.nn.axial import AxialRope, Turn  # noqa: E402
from docai.nn.grids import interpolated  # noqa: E402
from docai.preprocess.resample import interpolate  # noqa: E402
from docai.tasks.ground import ground  # noqa: E402
from docai.vlm.clips import question_of  # noqa: E402
from docai.vlm.config import Config  # noqa: E402
from docai.vlm.families import family_of  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.model import Model, open_model  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import GenerationOptions  # noqa: E402
from tests.goldens.processors.cases import picture  # noqa: E402
from tests.parity.stored import case_of, config_of, images_of, logits, quantized, weights_of, written  # noqa: E402
from tests.parity.weights import noise  # noqa: E402
from tests.tiny_documents import LOCATE_SPECIAL, tiny_locate  # noqa: E402

# --- the tower, by its definition


@pytest.mark.parametrize("grid", [(1, 8, 8), (1, 4, 6), (1, 13, 2), (1, 20, 31)])
def test_positions_are_resampled_as_torch_does_it(grid: tuple[int, int, int]) -> None:
    table = noise("table", (8, 8, 5), 1)
    down, across = interpolated(grid, 8, "bicubic")
    sampled = np.einsum("hy,wx,yxc->hwc", down, across, table)
    np.testing.assert_allclose(sampled, interpolate(table, grid[1:], kind="bicubic"), atol=2e-6)
    np.testing.assert_allclose(down.sum(1), 1, atol=1e-6)


def test_neighbours_are_turned_by_columns_and_rows_in_turn() -> None:
    rows, columns = np.array([0, 1, 2, 5]), np.array([3, 0, 4, 1])
    x = noise("x", (4, 2, 16), 1)
    rope = AxialRope(100.0, alternating=True)
    turn = Turn.by(rope.angles(rows, columns, 16), neighbours=True)
    expected = np.empty_like(x)
    for n in range(4):
        for pair in range(8):
            at = (columns if pair % 2 == 0 else rows)[n]
            angle = at * 100.0 ** (-4 * (pair // 2) / 16)
            a, b = x[n, :, 2 * pair], x[n, :, 2 * pair + 1]
            expected[n, :, 2 * pair] = a * np.cos(angle) - b * np.sin(angle)
            expected[n, :, 2 * pair + 1] = a * np.sin(angle) + b * np.cos(angle)
    np.testing.assert_allclose(np.array(turn(mx.array(x))), expected, atol=2e-6)


# --- a checkpoint with its vocabulary in three files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_locate(tmp_path_factory.mktemp("locate"))


@pytest.fixture(scope="module")
def locate(folder: Path) -> Model:
    return open_model(str(folder))


def text_of(model: Model, message: dict[str, Any], images: int, **more: Any) -> str:
    request = model.request([message], [picture((30 + n, 44)) for n in range(images)], GenerationOptions(), **more)
    return model.tokenizer.decode(request.ids, skip_special=False)


def test_each_image_is_framed_where_its_number_stands(locate: Model) -> None:
    text = text_of(locate, question_of(2, "Point to: x."), 2)
    seen = "<img>" + "<IMG_CONTEXT>" * 24 + "</img>"  # of 32 x 48 pixels, and as many of 40 x 48
    assert text == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        f"{seen}<img>{'<IMG_CONTEXT>' * 24}</img>Point to: x.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_checkpoint_without_a_template_is_asked_alike(locate: Model, tmp_path: Path) -> None:
    bare, question = open_model(str(tiny_locate(tmp_path / "bare", template=False))), question_of(2, "Point to: x.")
    assert text_of(bare, question, 2) == text_of(locate, question, 2)
    assert text_of(bare, question, 2, template=False).endswith("</img>Point to: x.")


@pytest.mark.parametrize("text", ["see <image-1>", "see <image-77>", "see <IMG_CONTEXT>"])
def test_a_text_cannot_contain_an_image_s_place(locate: Model, text: str) -> None:
    with pytest.raises(UsageError, match="a text cannot contain it"):
        text_of(locate, question_of(1, text), 1)


def test_coordinates_are_tokens(locate: Model) -> None:
    words = locate.tokenizer
    ids = words.encode("<ref>a</ref><box><0><17><999><1000></box>", special=False)
    assert [words.token(number) for number in ids[-6:]] == ["<box>", "<0>", "<17>", "<999>", "<1000>", "</box>"]
    assert words.token_id("<|im_end|>") in words.stops


def test_a_thousand_added_tokens_are_read_at_once(folder: Path) -> None:
    from docai.checkpoint.checkpoint import read_checkpoint
    from docai.vlm.tokenizer import Tokenizer

    start = time.perf_counter()
    words = Tokenizer.from_checkpoint(read_checkpoint(folder))
    assert time.perf_counter() - start < 2  # a fraction of that; one by one it took ten
    assert words.token_id(LOCATE_SPECIAL[-1]) is not None


def test_it_answers_in_every_way_of_reading(locate: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 10, "loop_guard": False}
    whole = locate.generate("Point to: x.", [picture((60, 90))], **options)
    assert whole.image_tokens == 6 * 9  # 200 patches at most
    parts = locate.generate("Point to: x.", [picture((60, 90))], prefill_step=16, **options)
    assert whole.tokens == parts.tokens
    assert locate.network.spec.boxes is not None, "boxes in a step each"
    assert locate.generate("Point to: x.", [picture((60, 90))], box_decoding="slow", **options).tokens
    assert locate.generate("Point to: x.", [picture((60, 90))], image_tokens=20, **options).image_tokens <= 20


def test_it_grounds(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    file = tmp_path / "a.png"
    Image.fromarray(picture((60, 90))).save(file)
    model = docai.load(str(folder))
    (page,) = ground(file, ["the cat", "a dog"], model, max_tokens=8)
    assert len(page.generations) == 1  # a list is one question
    (page,) = ground(file, ["the cat", "a dog"], model, shape="point", max_tokens=8)
    assert len(page.generations) == 2


def test_it_is_no_reader(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from docai.cli.app import main

    article = Path(__file__).parents[1] / "samples" / "article.pdf"
    with pytest.raises(SystemExit) as ended:
        main(["ocr", str(article), "-m", str(folder)])
    assert ended.value.code == 2
    assert "say where things are, but read nothing; see docai ground" in capsys.readouterr().err


# --- published checkpoints

# config.json of nvidia/LocateAnything-3B, as far as it is read
PUBLISHED = {
    "model_type": "locateanything", "image_token_index": 151_665, "mlp_connector_layers": 2,
    "vision_config": {
        "model_type": "moonvit", "hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16,
        "intermediate_size": 4304, "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
    },
    "text_config": {
        "model_type": "qwen2", "hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 2, "intermediate_size": 11_008, "vocab_size": 152_681, "rms_norm_eps": 1e-6,
        "rope_theta": 1e6, "max_position_embeddings": 32_768, "tie_word_embeddings": True, "block_size": 6,
    },
}  # fmt: skip


def linear(name: str, out: int, inner: int, *, bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (out, inner), **({f"{name}.bias": (out,)} if bias else {})}


def norm(name: str, dims: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (dims,), f"{name}.bias": (dims,)}


BLOCK = {
    **norm("norm0", 1152), **norm("norm1", 1152), **linear("wqkv", 3456, 1152), **linear("wo", 1152, 1152),
    **linear("mlp.fc0", 4304, 1152), **linear("mlp.fc1", 1152, 4304),
}  # fmt: skip
LAYER = {
    **linear("self_attn.q_proj", 2048, 2048), **linear("self_attn.k_proj", 256, 2048),
    **linear("self_attn.v_proj", 256, 2048), **linear("self_attn.o_proj", 2048, 2048, bias=False),
    **linear("mlp.gate_proj", 11_008, 2048, bias=False), **linear("mlp.up_proj", 11_008, 2048, bias=False),
    **linear("mlp.down_proj", 2048, 11_008, bias=False), "input_layernorm.weight": (2048,),
    "post_attention_layernorm.weight": (2048,),
}  # fmt: skip
NAMES = {
    "vision_model.patch_embed.proj.weight": (1152, 3, 14, 14), "vision_model.patch_embed.proj.bias": (1152,),
    "vision_model.patch_embed.pos_emb.weight": (64, 64, 1152), **norm("vision_model.encoder.final_layernorm", 1152),
    **{f"vision_model.encoder.blocks.{n}.{name}": shape for n in range(27) for name, shape in BLOCK.items()},
    **norm("mlp1.0", 4608), **linear("mlp1.1", 2048, 4608), **linear("mlp1.3", 2048, 2048),
    "language_model.model.embed_tokens.weight": (152_681, 2048), "language_model.model.norm.weight": (2048,),
    "language_model.lm_head.weight": (152_681, 2048),
    **{f"language_model.model.layers.{n}.{name}": shape for n in range(36) for name, shape in LAYER.items()},
}  # fmt: skip


def test_the_published_model_is_whole() -> None:
    family = family_of(PUBLISHED)
    spec = family.spec(Config(PUBLISHED))
    bare = {"model_type": "locateanything", "vision_config": {"model_type": "moonvit"}}
    assert family.spec(Config(bare)) == spec
    network = Network(spec)  # nothing is evaluated
    stored = sum(int(np.prod(shape)) for name, shape in NAMES.items() if "lm_head" not in name)
    assert sum(array.size for _, array in tree_flatten(network.parameters())) == stored
    tensors = {name: TensorInfo("BF16", shape) for name, shape in NAMES.items()}
    checkpoint = Checkpoint("locate", Path("nowhere"), PUBLISHED, (), tensors)
    assert map_weights(checkpoint, family.rules, spec, shapes_of(network)).dialect == "hf"


@pytest.mark.parametrize("said", [{"merge_kernel_size": [2, 1]}, {"init_pos_emb_width": 32}])
def test_what_is_not_square_is_refused(said: dict[str, Any]) -> None:
    config = {**PUBLISHED, "vision_config": {**PUBLISHED["vision_config"], **said}}  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match="expected squares"):
        family_of(config).spec(Config(config))


@pytest.mark.parametrize("variant", ["", "published"])
def test_exports_with_bits_of_their_own_for_some_layers_load(variant: str, tmp_path: Path) -> None:
    """As the mixed 4 and 8 bit export has it: half of the v_proj are finer than the rest."""
    name = "locateanything"
    config, tokens, images = config_of(name, variant), case_of(name)["tokens"], images_of(name)
    weights = weights_of(name, variant)
    weights.pop("language_model.lm_head.weight", None)
    fine = "language_model.model.layers.0.self_attn.v_proj"
    packed, plain = quantized(
        weights, 4, 32, dense=lambda key: not key.startswith("language_model") or key.startswith(fine)
    )
    one, one_plain = quantized({f"{fine}.weight": weights[f"{fine}.weight"]}, 8, 32)
    how = {"quantization": {"group_size": 32, "bits": 4, fine: {"group_size": 32, "bits": 8}}}
    ours = load_network(written(tmp_path / "packed", {**config, **how}, packed | one))
    expected = logits(load_network(written(tmp_path / "plain", config, plain | one_plain)), tokens, images)
    np.testing.assert_allclose(logits(ours, tokens, images), expected, rtol=1e-3, atol=1e-3)


def test_its_short_name_is_known() -> None:
    assert RECIPES["locate-anything"].repo == "nvidia/LocateAnything-3B"
    assert later_family("locateanything") is None
