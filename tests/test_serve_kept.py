"""Responses that are kept: for how long, how many, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from docai.serve import kept
from docai.serve.errors import ApiError
from docai.serve.kept import Responses


def item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def test_a_conversation_in_its_order() -> None:
    store = Responses(10_000, 60)
    before = None
    for number in range(4):
        answer = item(f"a{number}")
        store.keep({"id": f"r{number}", "output": [answer]}, [item(f"q{number}"), answer], "me", before)
        before = f"r{number}"
    assert [one["content"] for one in store.items("r2", "me")] == ["q0", "a0", "q1", "a1", "q2", "a2"]
    assert [one["content"] for one in store.asked("r1", "me") or ()] == ["q0", "a0", "q1"]
    assert [one["content"] for one in store.asked("r0", "me") or ()] == ["q0"]
    assert store.asked("r1", "other") is None


def test_tenants_know_only_their_own() -> None:
    store = Responses(10_000, 60)
    store.keep({"id": "r"}, [item("secret")], ("key", ""), None)
    for other in (("key", "t"), ("other", ""), ""):
        assert store.find("r", other) is None
        assert not store.drop("r", other)
        with pytest.raises(ApiError) as caught:
            store.items("r", other)
        assert (caught.value.status, caught.value.code) == (400, "previous_response_not_found")
    assert store.drop("r", ("key", ""))
    assert (len(store), store.bytes) == (0, 0)


def test_it_never_takes_more_than_its_size() -> None:
    store = Responses(1000, 60)
    for number in range(50):
        store.keep({"id": f"r{number}"}, [item("x" * (number * 7 % 300))], "me", None)
        assert store.bytes <= 1000
    assert 0 < len(store) < 50
    assert store.find("r49", "me") is not None
    store.keep({"id": "large"}, [item("x" * 2000)], "me", None)
    assert store.find("large", "me") is None


def test_what_a_conversation_stands_on_goes_last() -> None:
    store = Responses(700, 60)
    store.keep({"id": "root"}, [item("x" * 100)], "me", None)
    store.keep({"id": "other"}, [item("x" * 100)], "me", None)
    store.keep({"id": "child"}, [item("x" * 100)], "me", "root")
    store.keep({"id": "new"}, [item("x" * 200)], "me", None)
    assert [number for number in ("root", "other", "child", "new") if store.find(number, "me")] == [
        "root", "child", "new"
    ]  # fmt: skip
    store.keep({"id": "more"}, [item("x" * 100)], "me", None)
    assert [number for number in ("root", "child", "new", "more") if store.find(number, "me")] == [
        "root", "new", "more"
    ]  # fmt: skip


def test_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(kept.time, "monotonic", lambda: now[0])
    store = Responses(10_000, 60)
    store.keep({"id": "root"}, [item("a")], "me", None)
    store.keep({"id": "other"}, [item("b")], "me", None)
    now[0] = 50
    store.keep({"id": "child"}, [item("c")], "me", "root")
    now[0] = 100
    assert store.find("other", "me") is None
    assert [one["content"] for one in store.items("child", "me")] == ["a", "c"]
    now[0] = 170
    assert store.find("child", "me") is None
    assert store.bytes == 0


def test_none_is_kept_where_there_is_no_room() -> None:
    store = Responses(0, 60)
    assert not store.on
    store.keep({"id": "r"}, [], "me", None)
    assert len(store) == 0
