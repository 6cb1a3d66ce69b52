"""The rules that turn a checkpoint's tensors into ours: on names and shapes, and on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docai.checkpoint.dialect import (
    Concat,
    Drop,
    Interleave,
    Rename,
    Reshape,
    Rule,
    Shift,
    Split,
    Stack,
    Transpose,
    apply_rules,
    own_names_matched,
    renames,
)
from docai.checkpoint.names import fill, match, placeholders
from docai.checkpoint.tensors import Quantization, TensorInfo
from docai.errors import CheckpointError

FOUR_BIT = Quantization(32, 4)


def infos(**shapes: tuple[int, ...]) -> dict[str, TensorInfo]:
    return {name.replace("__", "."): TensorInfo("F32", shape) for name, shape in shapes.items()}


def mapped(arrays: dict[str, np.ndarray], *rules: Rule) -> dict[str, np.ndarray]:
    """The rules on numbers; the shapes that they said before must be those that come out."""
    found = apply_rules({name: TensorInfo("F32", a.shape) for name, a in arrays.items()}, rules)
    out = {name: weight.parts(arrays.__getitem__, np)["weight"] for name, weight in found.weights.items()}
    assert {name: a.shape for name, a in out.items()} == found.shapes
    return out


def packed(prefix: str, out: int, width: int, how: Quantization = FOUR_BIT) -> dict[str, np.ndarray]:
    """Arrays of the shapes of a quantized matrix (out, width), each row different."""
    shapes = {"weight": width * how.bits // 32, "scales": width // how.group_size, "biases": width // how.group_size}
    return {
        f"{prefix}.{part}": np.arange(out * n, dtype=np.float32).reshape(out, n) + 1000 * k
        for k, (part, n) in enumerate(shapes.items())
    }


class TestNames:
    @pytest.mark.parametrize(
        ("template", "name", "values"),
        [
            ("layers.{i}.{part}.{rest}", "layers.12.attn.q.weight", {"i": "12", "part": "attn", "rest": "q.weight"}),
            ("a.{i}", "a.b", None),
            ("a.{part}", "a.b.c", None),
            ("a.{kind:weight|bias}", "a.bias", {"kind": "bias"}),
            ("a.{kind:weight|bias}", "a.scales", None),
            ("a.{i}.b.{i}", "a.1.b.1", {"i": "1"}),
            ("a.{i}.b.{i}", "a.1.b.2", None),
            ("a.b", "axb", None),
            ("{rest}", "a", {"rest": "a"}),
            ("model.{rest}", "xmodel.a", None),
        ],
    )
    def test_a_template_matches_whole_names(self, template: str, name: str, values: dict[str, str] | None) -> None:
        assert match(template, name) == values

    words = st.text("abcxyz_", min_size=1, max_size=5)

    @given(st.integers(0, 10**6), words, st.lists(words, min_size=1, max_size=4))
    def test_a_filled_template_matches_itself(self, number: int, part: str, rest: list[str]) -> None:
        values = {"i": str(number), "part": part, "rest": ".".join(rest)}
        template = "a.{i}.{part}.b.{rest}"
        assert match(template, fill(template, values)) == values
        assert placeholders(template) == ("i", "part", "rest")


class TestRules:
    def test_rules_go_over_the_table_in_order(self) -> None:
        rules = (
            Rename("model.{rest}", "decoder.{rest}"),
            *renames({"q_proj": "attn.q", "up_proj": "mlp.up"}, "decoder.layers.{i}.", "decoder.layers.{i}."),
        )
        rules = (*rules, Rename("decoder.layers.{i}.q_proj.{kind}", "decoder.layers.{i}.attn.q.{kind}"))
        found = apply_rules(infos(model__layers__3__q_proj__weight=(4, 2)), rules)
        assert found.shapes == {"decoder.layers.3.attn.q.weight": (4, 2)}
        assert found.weights["decoder.layers.3.attn.q.weight"].sources == ("model.layers.3.q_proj.weight",)

    def test_what_is_dropped_is_known(self) -> None:
        found = apply_rules(infos(a__rotary__inv_freq=(4,), b=(1,)), (Drop("{rest}.rotary.inv_freq"),))
        assert (found.shapes, found.dropped) == ({"b": (1,)}, ("a.rotary.inv_freq",))

    def test_two_tensors_of_one_name_are_an_error(self) -> None:
        with pytest.raises(CheckpointError, match="would both become c: a, b"):
            apply_rules(infos(a=(1,), b=(1,)), (Rename("a", "c"), Rename("b", "c")))

    def test_reshape_keeps_and_infers_axes(self) -> None:
        array = np.arange(24.0).reshape(4, 3, 2)
        assert mapped({"a": array}, Reshape("a", (0, -1)))["a"].shape == (4, 6)
        with pytest.raises(CheckpointError, match=r"Reshape\(5, -1\): a has shape \(4, 3, 2\)"):
            mapped({"a": array}, Reshape("a", (5, -1)))

    def test_stack_is_in_the_order_of_its_numbers(self) -> None:
        arrays = {f"l.{i}.e.{e}": np.full((2,), 100 * i + e) for i in (0, 1) for e in reversed(range(11))}
        out = mapped(arrays, Stack("l.{i}.e.{e}", "l.{i}.experts"))
        assert out["l.1.experts"][:, 0].tolist() == list(range(100, 111))

    def test_a_gap_in_a_stack_is_named(self) -> None:
        with pytest.raises(CheckpointError, match="number 1 is missing"):
            apply_rules(infos(e__0=(2,), e__2=(2,)), (Stack("e.{e}", "experts"),))

    def test_a_stack_needs_one_number_to_stack(self) -> None:
        with pytest.raises(ValueError, match="one placeholder"):
            Stack("l.{i}.e.{e}", "experts")

    def test_parts_of_a_concat_must_all_be_there(self) -> None:
        rule = Concat(("{i}.q", "{i}.k"), "{i}.qk")
        assert apply_rules(infos(x=(1,)), (rule,)).shapes == {"x": (1,)}
        with pytest.raises(CheckpointError, match=r"\{i\}\.k is missing"):
            apply_rules({"0.q": TensorInfo("F32", (2, 2))}, (rule,))
        with pytest.raises(CheckpointError, match=r"0\.q has shape \(2, 2\), 0\.k has \(2, 3\)"):
            apply_rules({"0.q": TensorInfo("F32", (2, 2)), "0.k": TensorInfo("F32", (2, 3))}, (rule,))

    def test_split_in_proportion_may_leave_a_part_out(self) -> None:
        array = np.arange(24.0).reshape(12, 2)
        out = mapped({"qkv": array}, Split("qkv", ("q", None, "v"), sizes=(4, 1, 1)))
        assert {name: a.shape for name, a in out.items()} == {"q": (8, 2), "v": (2, 2)}
        assert (out["v"] == array[10:]).all()
        with pytest.raises(CheckpointError, match=r"Split into \(5, 1\)"):
            mapped({"qkv": array[:7]}, Split("qkv", ("q", "k"), sizes=(5, 1)))

    def test_interleave_turns_halves_into_pairs(self) -> None:
        array = np.array([0, 1, 10, 11, 20, 21, 30, 31])
        assert mapped({"a": array}, Interleave("a"))["a"].tolist() == [0, 20, 1, 21, 10, 30, 11, 31]
        assert mapped({"a": array}, Interleave("a", groups=2))["a"].tolist() == [0, 10, 1, 11, 20, 30, 21, 31]

    def test_shift_and_transpose(self) -> None:
        array = np.arange(6.0).reshape(2, 3)
        out = mapped({"a": array}, Shift("a", 1), Transpose("a", (1, 0)))
        assert (out["a"] == (array + 1).T).all()

    @pytest.mark.parametrize(
        "rule",
        [Transpose("a", (1, 0)), Split("a", ("x", "y"), axis=2), Interleave("a", parts=3), Stack("a{i}", "b", axis=0)],
    )
    def test_rules_that_do_not_fit_name_the_tensor(self, rule: Rule) -> None:
        tensors = infos(a=(4,), a0=(2,), a1=(3,))
        with pytest.raises(CheckpointError, match=r"\ba\b|a0"):
            apply_rules(tensors, (rule,))

    sizes = st.integers(1, 4)

    @given(st.tuples(sizes, sizes, sizes), st.permutations(range(3)))
    def test_transposed_back_it_is_the_same(self, shape: tuple[int, int, int], axes: list[int]) -> None:
        array = np.arange(np.prod(shape)).reshape(shape)
        back = tuple(axes.index(i) for i in range(3))
        assert (mapped({"a": array}, Transpose("a", tuple(axes)), Transpose("a", back))["a"] == array).all()

    @given(sizes, sizes, sizes, sizes, st.integers(-2, 1))
    def test_interleave_has_an_inverse(self, groups: int, parts: int, inner: int, other: int, axis: int) -> None:
        n = groups * parts * inner
        array = np.arange(n * other).reshape((n, other) if axis in (0, -2) else (other, n))
        rules = [Interleave("a", parts, groups, axis, inverse) for inverse in (False, True)]
        assert (mapped({"a": array}, *rules)["a"] == array).all()

    @given(st.lists(sizes, min_size=1, max_size=4), sizes, sizes, st.integers(-2, 1))
    def test_what_is_split_can_be_joined(self, parts: list[int], unit: int, other: int, axis: int) -> None:
        n = sum(parts) * unit
        array = np.arange(n * other).reshape((n, other) if axis in (0, -2) else (other, n))
        names = tuple(f"p{i}" for i in range(len(parts)))
        rules = (Split("a", names, axis, tuple(parts)), Concat(names, "a", axis))
        assert (mapped({"a": array}, *rules)["a"] == array).all()


class TestQuantized:
    def quantized(self, arrays: dict[str, Any], *rules: Rule) -> tuple[dict[str, Any], Any]:
        tensors = {name: TensorInfo("F16", a.shape) for name, a in arrays.items()}
        found = apply_rules(tensors, rules, lambda _: FOUR_BIT)
        out = {
            f"{name.removesuffix('weight')}{part}": array
            for name, weight in found.weights.items()
            for part, array in weight.parts(arrays.__getitem__, np).items()
        }
        return out, found

    def test_scales_and_biases_follow_their_weight(self) -> None:
        arrays = packed("x.qkv", 6, 64)
        rules = (Split("x.qkv.{kind}", ("x.q.{kind}", "x.k.{kind}", "x.v.{kind}")), Rename("x.{rest}", "y.{rest}"))
        out, found = self.quantized(arrays, *rules)
        assert found.shapes == {f"y.{n}.weight": (2, 64) for n in "qkv"}
        for at, name in enumerate("qkv"):
            for part in ("weight", "scales", "biases"):
                assert (out[f"y.{name}.{part}"] == arrays[f"x.qkv.{part}"][2 * at : 2 * at + 2]).all()

    def test_experts_are_stacked_and_reshaped_packed(self) -> None:
        arrays = {**packed("e.0", 4, 32), **packed("e.1", 4, 32)}
        out, found = self.quantized(arrays, Stack("e.{e}.weight", "experts.weight"), Reshape("experts.weight", (8, 32)))
        assert found.shapes == {"experts.weight": (8, 32)}
        assert {name: a.shape for name, a in out.items()} == {
            "experts.weight": (8, 4), "experts.scales": (8, 1), "experts.biases": (8, 1)
        }  # fmt: skip

    @pytest.mark.parametrize(
        "rule",
        [
            Transpose("a.weight", (1, 0)),
            Shift("a.weight", 1),
            Reshape("a.weight", (-1,)),
            Split("a.weight", ("b.weight", "c.weight"), axis=1),
            Interleave("a.weight", axis=-1),
            Concat(("a.weight",), "b.weight", axis=1),
        ],
    )
    def test_what_would_unpack_it_is_refused(self, rule: Rule) -> None:
        with pytest.raises(CheckpointError, match=r"a\.weight, which is quantized \(4 bit affine, groups of 32\)"):
            self.quantized(packed("a", 4, 64), rule)

    @pytest.mark.parametrize("rule", [Interleave("a", groups=0), Split("a", ("b", "c"), sizes=(0, 0))])
    def test_sizes_of_a_senseless_config_are_told(self, rule: Rule) -> None:
        with pytest.raises(CheckpointError, match=r"a has shape \(4,\)"):
            mapped({"a": np.zeros(4)}, rule)

    def test_its_name_must_end_in_weight(self) -> None:
        with pytest.raises(CheckpointError, match="ends in"):
            self.quantized(packed("a", 4, 64), Rename("a.weight", "b"))

    def test_shapes_that_contradict_the_config_are_an_error(self) -> None:
        with pytest.raises(CheckpointError, match=r"is not 4 bit affine.*would be a weight of shape \(4, 8\)"):
            self.quantized({**packed("a", 4, 64), "a.weight": np.zeros((4, 9))})
        with pytest.raises(CheckpointError, match=r"a\.scales is a single number"):
            self.quantized({**packed("a", 4, 64), "a.scales": np.zeros(())})
        with pytest.raises(CheckpointError, match=r"a\.biases has shape \(4, 1\), its scales have \(4, 2\)"):
            self.quantized({**packed("a", 4, 64), "a.biases": np.zeros((4, 1))})

    def test_missing_biases_are_named(self) -> None:
        arrays = packed("a", 4, 64)
        del arrays["a.biases"]
        with pytest.raises(CheckpointError, match=r"a\.biases is missing"):
            self.quantized(arrays)


class TestStrictness:
    def test_all_problems_are_told_at_once(self) -> None:
        found = apply_rules(infos(model__q__weight=(4, 2), k=(1,), v=(3,)), (Rename("model.{rest}", "{rest}"),))
        expected: dict[str, tuple[int, ...]] = {"q.weigth": (4, 2), "k": (1,), "v": (5,)}
        error = found.error(expected, "folder/model")
        assert (found.wrong(expected), error.exit_code) == (3, 3)
        assert str(error).splitlines() == [
            "folder/model: its tensors are not what its config describes",
            "  missing: q.weigth (nearest: q.weight)",
            "  left over: q.weight (from model.q.weight; nearest: q.weigth)",
            "  of another shape: v has shape (3,) in the file (v), the config asks for (5,)",
        ]

    def test_many_names_stay_one_line(self) -> None:
        found = apply_rules({}, ())
        (line,) = found.problems({f"layer{i}": (1,) for i in range(100)})
        assert line.endswith("layer7, and 92 more")

    def test_rules_that_match_our_own_names_are_found(self) -> None:
        rules = (Rename("model.{rest}", "decoder.{rest}"), Rename("{part}.embed.weight", "x"))
        assert own_names_matched(rules, ["decoder.embed.weight"]) == [("{part}.embed.weight", "decoder.embed.weight")]
