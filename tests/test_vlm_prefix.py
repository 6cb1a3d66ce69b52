"""Blocks of prompts: what is shared is not read again, in memory or from disk, and no answer changes by it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from docai.errors import OutputError  # noqa: E402
from docai.nn.cache import Cache, FullCache, QuantizedCache, RotatingCache  # noqa: E402
from docai.nn.rounding import Rounding  # noqa: E402
from docai.nn.scores import Scoring  # noqa: E402
from docai.tasks.load import load  # noqa: E402
from docai.vlm.block_file import checksum, named  # noqa: E402
from docai.vlm.engine import Engine  # noqa: E402
from docai.vlm.generate import Request, RequestImage, Runtime  # noqa: E402
from docai.vlm.loading import load_network  # noqa: E402
from docai.vlm.prefix import Block, BlockStore, Layout, Span, chain, restore  # noqa: E402
from docai.vlm.request import Generation, GenerationOptions  # noqa: E402
from docai.vlm.shelf import DiskShelf  # noqa: E402
from docai.vlm.stream import Pieces  # noqa: E402
from docai.vlm.tokenizer import Tokenizer  # noqa: E402
from tests.parity.stored import CASES, case_of, config_of, images_of, weights_of, written  # noqa: E402
from tests.tiny_checkpoint import byte_level, tiny_llama  # noqa: E402

KINDS: dict[str, Callable[[], Cache]] = {
    "full": FullCache,
    "small ring": lambda: RotatingCache(6),
    "ring": lambda: RotatingCache(15),
    "large ring": lambda: RotatingCache(300),
    "rounded": lambda: QuantizedCache(Rounding(8, 4)),
}


def taken(cache: Cache, seed: int, length: int) -> np.ndarray:
    state = np.random.RandomState(seed)
    q, k, v = (mx.array(state.standard_normal((1, 2, length, 64)).astype(np.float32)) for _ in range(3))
    return np.asarray(cache.attend(q, k, v, Scoring(0.125), cache.mask(length, None)))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_cache_that_is_restored_goes_on_as_the_one_it_was_taken_from(kind: Callable[[], Cache]) -> None:
    cache, blocks = kind(), []
    for seed, length in enumerate((10, 10, 4)):
        taken(cache, seed, length)
        blocks.append(Block.of([cache], length))
    again = kind()
    restore(blocks, [again])
    for seed, length in ((7, 5), (8, 1), (9, 1), (10, 8)):
        np.testing.assert_array_equal(taken(again, seed, length), taken(cache, seed, length))
    assert again.offset == cache.offset


def block(tokens: int, *, logits: bool = False) -> Block:
    cache = FullCache()
    taken(cache, tokens, tokens)
    return Block.of([cache], tokens, mx.ones((1, 5)) if logits else None)


def test_keys_stand_for_all_that_comes_before() -> None:
    plain = Layout(tuple(range(20)), (Span(6, 9, ("a",)),), (5, 10, 20))
    keys = chain(plain, "root")
    assert len(set(keys)) == 3
    assert chain(plain, "other tenant")[0] != keys[0]

    def shared(layout: Layout) -> int:
        return sum(a == b for a, b in zip(chain(layout, "root"), keys, strict=False))

    assert shared(plain) == 3
    assert shared(Layout((*range(19), 99), plain.images, (5, 10, 20))) == 2
    assert shared(Layout((*range(10), 99, 100), plain.images, (5, 10, 12))) == 2
    assert shared(Layout(plain.ids, (Span(6, 9, ("b",)),), plain.ends)) == 1
    assert shared(Layout(plain.ids, plain.images, (5, 11, 20))) == 1
    assert shared(Layout((99, *range(1, 20)), plain.images, plain.ends)) == 0


def test_memory_keeps_what_was_used_last_within_its_budget() -> None:
    one = block(10).nbytes
    store = BlockStore(3 * one)
    for key in "abc":
        store.put(key, block(10), 10)
    assert len(store.find(["a", "x"])) == 1
    store.put("d", block(10), 10)
    assert [bool(store.find([key, "x"])) for key in "abcd"] == [True, False, True, True]
    store.put("huge", block(40), 40)
    assert store.nbytes == 3 * one
    stats = store.stats()
    assert (stats["evictions"], stats["resident_bytes"], stats["pool_used"]) == (1, 3 * one, 3)
    assert (stats["lookups_hit"], stats["lookups_miss"], stats["stored_tokens"]) == (4, 1, 80)
    assert stats["token_hit_rate"] == pytest.approx(40 / 120)
    store.clear()
    assert store.nbytes == len(store) == 0


def test_the_end_of_a_prompt_needs_its_scores() -> None:
    store = BlockStore(1 << 20)
    store.put("a", block(10), 10)
    assert store.find(["a"]) == []
    assert len(store.find(["a", "b"])) == 1
    for logits in (True, False):  # what another prompt read meanwhile has none
        store.put("a", block(10, logits=logits), 10)
        assert len(store.find(["a"])) == 1
    assert store.nbytes == block(10, logits=True).nbytes


def same_block(one: Block, other: Block) -> bool:
    pairs = zip(one.arrays, other.arrays, strict=True)
    return (one.end, one.widths) == (other.end, other.widths) and all(mx.array_equal(a, b) for a, b in pairs)


def test_the_shelf_outlives_the_process(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path, "layout")
    cache = QuantizedCache(Rounding(8, 4))
    taken(cache, 1, 12)
    half = Block(((mx.ones((1, 2, 3, 4), mx.bfloat16) * 0.1,),), ((2,),), 3, mx.ones((1, 4), mx.float16))
    blocks = {"full": block(7, logits=True), "rounded": Block.of([cache], 12), "half": half}
    for key, each in blocks.items():
        shelf.put(key, each)
    shelf.flush()
    assert shelf.stats()["disk_pending_bytes"] == 0
    again = DiskShelf(tmp_path, "layout")
    for key, each in blocks.items():
        found = again.get([key, "none"])[key]
        assert same_block(found, each)
        assert [a.dtype for a in found.arrays] == [a.dtype for a in each.arrays]
    assert again.get(["none"]) == {}
    assert mx.load(str(tmp_path / "full.safetensors"))["0.0"].shape == (1, 2, 7, 128)
    again.flush()


@pytest.mark.parametrize("damage", ["cut", "flipped", "swapped", "empty", "header", "layout", "gone"])
def test_damaged_files_are_as_if_they_were_not_there(tmp_path: Path, damage: str) -> None:
    shelf = DiskShelf(tmp_path, "layout")
    shelf.put("a", block(10))
    shelf.flush()
    path = tmp_path / "a.safetensors"
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del data[-100:]
        case "flipped":
            data[-50] ^= 4
        case "swapped":
            data[-60], data[-51] = data[-51], data[-60]
        case "empty":
            data.clear()
        case "header":
            data[:20] = b"\xff" * 20
    path.write_bytes(data)
    again = DiskShelf(tmp_path, "other" if damage == "layout" else "layout")
    if damage == "gone":
        path.unlink()
    assert again.get(["a"]) == {}
    assert not path.exists()
    assert again.stats()["disk_rejects"] == 1
    again.flush()


def test_the_shelf_keeps_to_its_cap(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path, "layout", cap=3 * block(10).nbytes + 3000)
    for key in "abcd":
        shelf.put(key, block(10))
    shelf.flush()
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["b", "c", "d"]
    assert shelf.stats()["disk_evictions"] == 1


def test_processes_that_share_a_folder_keep_to_one_cap(tmp_path: Path) -> None:
    cap = 4 * block(10).nbytes + 4000
    shelves = [DiskShelf(tmp_path, "layout", cap=cap) for _ in range(2)]  # each knows what it has found and written
    for number in range(8):
        one, files_of = block(10), shelves[number % 2]._files
        assert files_of.expect(f"{number}", one)
        files_of.write(f"{number}", one, named(one))
    files = list(tmp_path.iterdir())
    assert 3 <= len(files) <= 4
    assert sum(path.stat().st_size for path in files) <= cap
    assert "6" in shelves[1]  # which the other one has written
    assert same_block(shelves[1].get(["6"])["6"], block(10))
    for shelf in shelves:
        shelf.flush()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_what_others_put_among_the_files_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "blocks" / "folder.safetensors").mkdir(parents=True)
    os.mkfifo(tmp_path / "blocks" / "pipe.safetensors")
    deep = b"[" * 100_000
    (tmp_path / "blocks" / "deep.safetensors").write_bytes(len(deep).to_bytes(8, "little") + deep)
    shelf = DiskShelf(tmp_path / "blocks", "layout")
    assert shelf.get(["pipe", "folder", "deep"]) == {}
    assert not (tmp_path / "blocks" / "deep.safetensors").exists()
    mine, one = tmp_path / "mine", block(10)
    mine.write_text("mine")
    part = f"a.{os.getpid()}-{threading.get_ident()}.part"
    (tmp_path / "blocks" / part).symlink_to(mine)
    for failures, writes in ((1, 0), (1, 1)):
        assert shelf._files.expect("a", one)
        shelf._files.write("a", one, named(one))
        assert (shelf.stats()["disk_write_failures"], shelf.stats()["disk_writes"]) == (failures, writes)
    assert mine.read_text() == "mine"
    assert same_block(shelf.get(["a"])["a"], one)
    shelf.flush()


def test_scores_on_their_way_are_not_written_over(tmp_path: Path) -> None:
    """A longer prompt reads a block again whose scores have not been written yet."""
    shelf = DiskShelf(tmp_path, "layout")
    whole, plain = block(10, logits=True), block(10)
    for key, first in (("a", whole), ("b", plain)):
        assert shelf._files.expect(key, first)
        assert not shelf._files.expect(key, plain)
        assert shelf._files.expect(key, whole)
        for each in (first, whole):
            shelf._files.write(key, each, named(each))
        assert not shelf._files.expect(key, plain)
    assert [same_block(found, whole) for found in shelf.get(["a", "b"]).values()] == [True, True]
    assert shelf.stats()["disk_pending_bytes"] == 0
    shelf.flush()


def test_a_shelf_that_is_too_large_makes_room_at_once(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path, "layout")
    for key in "abcd":
        shelf.put(key, block(10))
    shelf.flush()
    shelf.used(["b", "a"])  # of a prompt that begins with b
    again = DiskShelf(tmp_path, "layout", cap=2 * block(10).nbytes + 2000)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["a", "b"]
    again.flush()
    smaller = DiskShelf(tmp_path, "layout", cap=block(10).nbytes + 1000)
    assert [path.stem for path in tmp_path.iterdir()] == ["b"]
    smaller.clear()
    assert list(tmp_path.iterdir()) == []
    smaller.flush()
    smaller.put("e", block(10))  # nobody writes any more
    assert smaller.stats()["disk_pending_bytes"] == 0


def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path, "layout")
    store = BlockStore(10 * block(10).nbytes, shelf)
    store.keep_within(2 * block(10).nbytes)
    assert store.budget == shelf.most_pending == 2 * block(10).nbytes
    assert store.most_bytes == 4 * block(10).nbytes
    store.budget = 1 << 40
    assert store.budget == 2 * block(10).nbytes
    store.put("large", block(40), 40)
    assert shelf.stats()["disk_pending_bytes"] == 0
    shelf.flush()
    assert "large" not in shelf
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="expected a folder"):
        DiskShelf(tmp_path / "file", "layout")


def test_a_smaller_budget_holds_at_once() -> None:
    store = BlockStore(3 * block(10).nbytes)
    for key in "abc":
        store.put(key, block(10), 10)
    store.budget = block(10).nbytes
    assert (len(store), store.nbytes) == (1, block(10).nbytes)
    assert store.find(["c", "x"])


def test_what_cannot_be_reached_is_not_read(tmp_path: Path) -> None:
    """Blocks whose beginning is gone are of no use."""
    shelf = DiskShelf(tmp_path, "layout")
    for key in "abd":
        shelf.put(key, block(10))
    shelf.flush()
    again = DiskShelf(tmp_path, "layout")
    store = BlockStore(1 << 20, again)
    assert len(store.find(["a", "b", "c", "d"])) == 2
    assert store.stats()["disk_hits"] == 2
    again.flush()


def test_checksums_tell_damage() -> None:
    data = np.random.RandomState(1).randint(0, 256, 1003).astype(np.uint8)
    assert checksum(data) == checksum(data.copy())
    for at in (0, 500, 1002):
        other = data.copy()
        other[at] ^= 1
        assert checksum(other) != checksum(data)
    pages = np.random.RandomState(2).randint(0, 256, 5 * 4096 + 24).astype(np.uint8)
    swapped = pages.copy()
    swapped[:4096], swapped[8192:12288] = pages[8192:12288], pages[:4096]
    assert checksum(swapped) != checksum(pages)


def test_no_changed_byte_of_a_header_is_taken_for_a_block(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path, "layout")
    shelf.put("a", block(10, logits=True))
    shelf.flush()
    path = tmp_path / "a.safetensors"
    data = path.read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    unharmed = 0
    for at in range(length):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        again = DiskShelf(tmp_path, "layout")
        found = again.get(["a"])
        if found:  # a blank that has become another one
            assert same_block(found["a"], block(10, logits=True))
            unharmed += 1
        again.flush()
    assert unharmed < 16


class Case:
    def __init__(self, name: str, folder: Path) -> None:
        self.network = load_network(written(folder, config_of(name), weights_of(name)))
        self.runtime = Runtime(self.network, Pieces(Tokenizer(byte_level())))
        self.images, self.ids = images_of(name), case_of(name)["tokens"]

    def answers(self, store: BlockStore | None, turns: list[list[int]], **options: Any) -> list[Generation]:
        """Requests one after the other that begin alike and end with these tokens."""
        chosen = GenerationOptions(max_tokens=4, prefill_step=16, **options)
        engine = Engine(self.runtime, store=store)
        seen = [RequestImage((n,), i, lambda i=i: self.network.encode([i])[0]) for n, i in enumerate(self.images)]
        done = [engine.submit(Request([*self.ids, *more], seen, chosen)).whole() for more in turns]
        engine.close()
        return done


@pytest.mark.parametrize("name", CASES)
def test_no_family_s_answers_change_by_what_is_kept(name: str, tmp_path: Path) -> None:
    case = Case(name, tmp_path / "model")
    turns: list[list[int]] = [[], [], [7], [7, 9, 11], [8] * 9, [8] * 12]
    plain = [done.tokens for done in case.answers(None, turns)]
    kept = case.answers(BlockStore(1 << 24), turns)
    assert [done.tokens for done in kept] == plain
    shelf = DiskShelf(tmp_path / "blocks", "layout")
    case.answers(BlockStore(0, shelf), turns[:4])
    shelf.flush()
    again = DiskShelf(tmp_path / "blocks", "layout")
    from_disk = case.answers(BlockStore(0, again), turns)
    assert [done.tokens for done in from_disk] == plain
    again.flush()
    if case.network.spec.image_mask is None:
        assert kept[1].usage.reused == kept[0].usage.prompt == from_disk[0].usage.reused
        assert all(done.usage.reused >= 16 for done in kept[2:])
    else:
        assert kept[1].usage.reused == kept[0].usage.prompt


def test_tenants_share_nothing(tmp_path: Path) -> None:
    case = Case("llama", tmp_path)
    store = BlockStore(1 << 24)
    engine = Engine(case.runtime, store=store)
    request = Request(case.ids, options=GenerationOptions(max_tokens=3, prefill_step=16))
    reused = [engine.submit(request, tenant=tenant).whole().usage.reused for tenant in ("a", "b", "a", "b")]
    assert reused == [0, 0, len(case.ids), len(case.ids)]
    engine.close()
    del engine
    gc.collect()


def test_a_model_finds_what_it_read_the_last_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And another checkpoint in the same place does not."""
    folder, text = tmp_path / "model", "a text of some length " * 20
    tiny_llama(folder)

    def answer(**keep: Any) -> Generation:
        model = load(str(folder), prefix_disk=tmp_path / "blocks", **keep)
        done = model.generate(text, max_tokens=6, prefill_step=64)
        shelf = model.engine.store._shelf
        assert isinstance(shelf, DiskShelf)
        shelf.flush()
        return done

    first, again, without_memory = answer(), answer(), answer(prefix_cache=0)
    assert first.usage.reused == 0
    assert again.usage.reused == without_memory.usage.reused == first.usage.prompt
    assert first.tokens == again.tokens == without_memory.tokens
    os.utime(folder / "model.safetensors", (1, 1))
    assert answer().usage.reused == 0
    assert len(list((tmp_path / "blocks").iterdir())) == 1  # what was kept of the other one is gone
    os.utime(folder / "model.safetensors", (2, 2))
    monkeypatch.setattr("docai.vlm.shelf.__version__", "another")
    assert answer().usage.reused == 0


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    shelf = DiskShelf(tmp_path / "x", "layout")
    (tmp_path / "x").rmdir()
    shelf.put("a", block(10))
    shelf.flush()
    stats = shelf.stats()
    assert (stats["disk_write_failures"], stats["disk_writes"], stats["disk_pending_bytes"]) == (1, 0, 0)
