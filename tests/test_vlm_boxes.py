"""Boxes in a step each: answers as the reference writes them, and what six tokens are taken for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from tokenizers import Tokenizer as Backend  # noqa: E402
from tokenizers.models import WordLevel  # noqa: E402

from docai.vlm.boxes import How, Taken, seen_of, taken  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.generate import Request, Runtime  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.network import Network  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions  # noqa: E402
from docai.vlm.spec import BoxSpec  # noqa: E402
from docai.vlm.stream import Pieces  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.parity.locate_boxes import CONFIG, FILE, TOKENS, VOCABULARY, WAYS, prompt_of, weights_for  # noqa: E402
from tests.parity.stored import written  # noqa: E402

STORED = json.loads(FILE.read_text())
END = 206


def words(stops: Sequence[int]) -> Tokenizer:
    return Tokenizer(Backend(WordLevel({f"w{n} ": n for n in range(VOCABULARY)}, "w0 "))).stopping_at(
        [f"w{stop} " for stop in stops]
    )


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Network]:
    folder = tmp_path_factory.mktemp("boxes")
    return {
        case["seed"]: load_network(
            written(folder / str(case["seed"]), CONFIG, weights_for(STORED["tensors"], case["seed"], case["peak"]))
        )
        for case in STORED["cases"]
    }


def answers(network: Network, seeds: Sequence[int], stops: Sequence[int] = (END,), **options: Any) -> list[Generation]:
    engine = Engine(Runtime(network, Pieces(words(stops))))
    chosen = GenerationOptions(**{"max_tokens": TOKENS, "loop_guard": False, **options})
    try:
        return engine.answers([Request(prompt_of(seed), (), chosen) for seed in seeds])
    finally:
        engine.close()


def to_its_end(tokens: list[int]) -> list[int]:
    """The reference goes on behind the end of an answer where that stands within six tokens."""
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_those_of_the_reference(networks: dict[int, Network], way: str) -> None:
    for case in STORED["cases"]:
        (found,) = answers(networks[case["seed"]], [case["seed"]], box_decoding=way)
        assert list(found.tokens) == to_its_end(case[way]), case["seed"]


def test_company_changes_nothing(networks: dict[int, Network]) -> None:
    network, seeds = next(iter(networks.values())), [3, 4, 5, 6]
    alone = [answers(network, [seed])[0] for seed in seeds]
    assert [one.tokens for one in answers(network, seeds)] == [one.tokens for one in alone]
    assert {one.finish_reason for one in alone} <= {"stop", "length"}


def test_the_limit_holds_within_six_tokens(networks: dict[int, Network]) -> None:
    case = max(STORED["cases"], key=lambda case: len(to_its_end(case["hybrid"])))
    (found,) = answers(networks[case["seed"]], [case["seed"]], max_tokens=7)
    assert (list(found.tokens), found.finish_reason) == (case["hybrid"][:7], "length")


@pytest.mark.parametrize("options", [{"temperature": 1.0, "seed": 1}, {"logprobs": 2}, {"repetition_penalty": 1.3}])
def test_where_more_is_asked_tokens_come_one_by_one(networks: dict[int, Network], options: dict[str, Any]) -> None:
    network, seed = next(iter(networks.values())), STORED["cases"][0]["seed"]
    fast, slow = (answers(network, [seed], box_decoding=way, **options)[0] for way in ("fast", "slow"))
    assert fast.tokens == slow.tokens


# --- what six tokens are taken for

SPEC = BoxSpec((200, 201), (202, 203), (40, 190), 5, 204, 205, END)


def scores(*rows: dict[int, float]) -> Any:
    """(6, V) of chances; what is left of each row is spread over words that mean nothing."""
    chances = np.full((6, VOCABULARY), 1e-9)
    for row, said in zip(chances, rows, strict=True):
        for token, chance in said.items():
            row[token] = chance
        row[208:] += max(0.0, 1 - sum(said.values())) / (VOCABULARY - 208)
    return mx.array(np.log(chances).astype(np.float32))


BOX = ({200: 1}, {50: 1}, {60: 1}, {70: 1}, {80: 1}, {201: 1})


@pytest.mark.parametrize(
    ("rows", "how", "expected"),
    [
        (BOX, "hybrid", Taken([200, 50, 60, 70, 80, 201])),
        # rivals far apart, and close by
        ((*BOX[:2], {60: 0.6, 150: 0.4}, *BOX[3:]), "hybrid", Taken([200, 50], True)),
        ((*BOX[:2], {60: 0.6, 150: 0.4}, *BOX[3:]), "fast", Taken([200, 50, 60, 70, 80, 201])),
        ((*BOX[:2], {60: 0.6, 64: 0.4}, *BOX[3:]), "hybrid", Taken([200, 50, 60, 70, 80, 201])),
        ((*BOX[:2], {60: 0.95, 150: 0.05}, *BOX[3:]), "hybrid", Taken([200, 50, 60, 70, 80, 201])),
        # a word is likelier than any coordinate, of which one is among the first five
        ((*BOX[:2], {7: 0.6, 60: 0.4}, *BOX[3:]), "hybrid", Taken([200, 50, 60, 70, 80, 201])),
        # a point; none; the end; words
        (({200: 1}, {50: 1}, {60: 1}, {201: 1}, {204: 1}, {204: 1}), "hybrid", Taken([200, 50, 60, 201])),
        (({200: 1}, {5: 1}, {201: 1}, {204: 1}, {204: 1}, {204: 1}), "hybrid", Taken([200, 5, 201])),
        (({200: 0.8, 7: 0.2}, {7: 0.7, 5: 0.3}, {8: 0.7, 201: 0.3}, *[{7: 0.8, 204: 0.2}] * 2, {7: 1}), "hybrid",
         Taken([200, 5, 201])),
        (({204: 1}, *[{7: 1}] * 5), "hybrid", Taken([END])),
        (({END: 1}, *[{7: 1}] * 5), "fast", Taken([END])),
        (({7: 1}, {8: 1}, {204: 1}, {9: 1}, {9: 1}, {9: 1}), "hybrid", Taken([7, 8])),
        (({7: 1}, {8: 1}, {9: 1}, {10: 1}, {203: 1}, {203: 1}), "hybrid", Taken([7, 8, 9, 10, 203])),
        # a name has no coordinates, however likely they are
        (({202: 0.7, 7: 0.3}, {50: 0.6, 8: 0.4}, {9: 1}, {203: 1}, {204: 1}, {204: 1}), "hybrid",
         Taken([202, 8, 9, 203])),
        # a box that breaks off
        (({200: 1}, {50: 1}, {7: 1}, {70: 1}, {80: 1}, {8: 1}), "hybrid", Taken([200, 50], True)),
        (({200: 1}, {50: 1}, {7: 1}, {70: 1}, {80: 1}, {8: 1}), "fast", Taken([200, 50, 7, 70, 80, 8])),
    ],
)  # fmt: skip
def test_what_six_tokens_are_taken_for(rows: Any, how: How, expected: Taken) -> None:
    assert taken(seen_of(scores(*rows), SPEC), SPEC, how) == expected


def test_a_vocabulary_without_the_tokens_is_read_one_by_one(tmp_path: Path) -> None:
    from tests.parity.stored import config_of, weights_of

    network = load_network(written(tmp_path / "plain", config_of("locateanything"), weights_of("locateanything")))
    assert network.spec.boxes is None
