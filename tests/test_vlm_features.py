"""The feature cache: keys, order of eviction, counts, threads."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from docai.vlm.features import CacheCounts, FeatureCache, bytes_key, path_key, pixels_key


def test_the_least_recently_used_goes_first() -> None:
    cache: FeatureCache[int] = FeatureCache(2)
    cache.put(("a",), 1)
    cache.put(("b",), 2)
    assert cache.get(("a",)) == 1
    cache.put(("c",), 3)
    assert [cache.get((name,)) for name in "abc"] == [1, None, 3]
    assert cache.counts == CacheCounts(hits=3, misses=1, evictions=1)
    assert len(cache) == 2


def test_a_size_of_nothing_keeps_nothing() -> None:
    cache: FeatureCache[int] = FeatureCache(0)
    cache.put(("a",), 1)
    assert cache.get(("a",)) is None
    assert cache.counts == CacheCounts(misses=1)


def test_bytes_are_bounded_too() -> None:
    cache: FeatureCache[int] = FeatureCache(10, 100, lambda value: value)
    for name, value in (("a", 40), ("b", 50), ("c", 30), ("d", 101)):
        cache.put((name,), value)
    assert [cache.get((name,)) for name in "abcd"] == [None, 50, 30, None]
    assert cache.nbytes == 80
    cache.put(("b",), 60)
    assert cache.nbytes == 90


def test_a_smaller_bound_holds_at_once() -> None:
    cache: FeatureCache[int] = FeatureCache(10, 100, lambda value: value)
    for value in range(10):
        cache.put((value,), value)
    cache.size = 5
    assert (len(cache), cache.nbytes) == (5, 5 + 6 + 7 + 8 + 9)
    cache.most_bytes = 20
    assert (len(cache), cache.nbytes) == (2, 17)
    cache.size = 0
    assert (len(cache), cache.nbytes, cache.most_bytes) == (0, 0, 0)
    assert cache.counts.evictions == 10


def test_a_value_put_again_is_replaced() -> None:
    cache: FeatureCache[int] = FeatureCache(2)
    for value in (1, 2, 3):
        cache.put(("a",), value)
    assert cache.get(("a",)) == 3
    assert cache.counts.evictions == 0


def test_a_path_is_one_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.png").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    keys = {path_key(p) for p in (file, str(file), "a.png", "./folder/../a.png", "link.png")}
    assert len(keys) == 1


def test_a_file_written_anew_is_another(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(b"x")
    keys = {path_key(file)}
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 1))
    keys.add(path_key(file))
    stamp = file.stat().st_mtime_ns
    file.write_bytes(b"xy")
    os.utime(file, ns=(1, stamp))
    keys.add(path_key(file))
    assert len(keys) == 3


def test_keys_of_different_kinds_never_meet(tmp_path: Path) -> None:
    rgb = np.zeros((2, 3, 3), np.uint8)
    data = rgb.tobytes()
    file = tmp_path / "a.png"
    file.write_bytes(data)
    keys = [path_key(file), bytes_key(data), pixels_key(rgb), pixels_key(rgb.reshape(3, 2, 3))]
    assert len(set(keys)) == 4
    assert bytes_key(data) == bytes_key(bytes(data))
    assert pixels_key(rgb) == pixels_key(np.zeros((2, 6, 3), np.uint8)[:, ::2])


def test_threads_lose_no_count() -> None:
    cache: FeatureCache[int] = FeatureCache(5)

    def work(seed: int) -> None:
        for n in range(500):
            key = (str((n * seed) % 9),)
            if cache.get(key) is None:
                cache.put(key, n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.counts.hits + cache.counts.misses == 2000
    assert len(cache) == 5
