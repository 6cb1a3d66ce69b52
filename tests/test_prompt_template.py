"""Chat templates are programs by strangers: what they may do, what they may not, and how long."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from threading import Thread
from types import FrameType
from typing import Any

import pytest

from docai.errors import CheckpointError, UsageError
from docai.vlm import template as module
from docai.vlm.template import render_template

VARIABLES: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "bos_token": "<s>"}


def shown(source: str) -> str:
    return render_template(source, VARIABLES)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m['content'] }}{% endfor %}", "<s>user:hi"),
        ("  {% if true %}\n  a\n  {% endif %}\nb", "  a\nb"),  # trim_blocks and lstrip_blocks
        ("{% generation %}x{{ messages | length }}{% endgeneration %}", "x1"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{{ {'b': 'é<&', 'a': 1} | tojson }}", '{"b": "é<&", "a": 1}'),
        ("{{ {'b': 1, 'a': [2]} | tojson(indent=1, sort_keys=True) }}", '{\n "a": [\n  2\n ],\n "b": 1\n}'),
        ("{{ [1] | tojson(separators=(',', ':')) }}", "[1]"),
        ("{{ strftime_now('%Y') }}", str(datetime.now().year)),
        ("{% set n = namespace(a=1) %}{% for i in range(3) %}{% set n.a = n.a + i %}{% endfor %}{{ n.a }}", "4"),
        ("{{ dict(a=1, **{'b': 2}) | tojson }}", '{"a": 1, "b": 2}'),
        ("{{ '%s-%02d' | format('a', 3) }}{{ '{}!'.format('b') }}{{ '%s' % 'c' }}{{ 'd' ~ 1 }}", "a-03b!cd1"),
        ("{{ missing }}{{ missing is defined }}", "False"),
        ("{{ 'a,b'.split(',')[-1] }}{{ 'x' * 3 }}{{ 2 ** 3 }}{{ messages[0].content | trim | upper }}", "bxxx8HI"),
        (
            "{% macro f(function, context) %}{{ function }}{{ context }}{% endmacro %}{{ f(function=1, context=2) }}",
            "12",
        ),
    ],
)
def test_templates_run_as_in_transformers(source: str, text: str) -> None:
    assert shown(source) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(3) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum.__globals__['os'].system('true') }}",
        "{% set n = namespace() %}{% set n.__class__ = 3 %}",
        "{% set n = namespace(**{'__init__': 3}) %}",
        "{{ '{0.__class__.__name__}'.format(messages) }}",
    ],
)
def test_templates_do_not_get_out(source: str) -> None:
    with pytest.raises((CheckpointError, UsageError), match=r"may not|fails on these"):
        shown(source)


@pytest.mark.parametrize(
    "source", ["{{ dict.__class__ }}", "{{ lipsum | attr('__globals__') }}", "{{ self.__init__ }}"]
)
def test_what_they_may_not_see_is_not_there(source: str) -> None:
    assert shown(source) == ""


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set r = range(100000) | list %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% for i in range(9) %}{{ f(n - 1) if n }}{% endfor %}{% endmacro %}{{ f(20) }}",
    ],
)
def test_a_template_that_does_not_end_is_ended(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SECONDS", 0.2)
    errors = []

    def attempt() -> None:
        try:
            shown(source)
        except CheckpointError as error:
            errors.append(str(error))

    started = time.monotonic()
    thread = Thread(target=attempt)  # a server renders in threads, where signals do not reach
    thread.start()
    thread.join()
    assert time.monotonic() - started < 5
    assert "runs for more than 0.2 seconds; --no-chat-template" in errors[0]


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10 ** 10 }}",
        "{{ (['a'] * 10 ** 9) | length }}",
        "{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
        "{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}{{ n.s }}",
        "{{ 'a'.center(10 ** 11) }}",
        "{{ 'a' | center(10 ** 11) }}",
        "{{ '%999999999999d' | format(3) }}",
        "{{ '%*d' % (99999999999, 3) }}",
        "{{ '{:>100000000000}'.format('a') }}",
        "{{ 9 ** 9999999 }}",
        "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_that_grows_is_ended(source: str) -> None:
    with pytest.raises(CheckpointError, match=r"the checkpoint's chat template .*--no-chat-template"):
        shown(source)


def test_what_goes_wrong_is_said_with_a_way_out() -> None:
    with pytest.raises(UsageError, match="refuses these messages: no system; --no-chat-template"):
        shown("{{ raise_exception('no system') }}")
    with pytest.raises(UsageError, match="UndefinedError: 'x' is undefined; --no-chat-template"):
        shown("{{ x.y.z }}")
    with pytest.raises(CheckpointError, match="no Jinja template, line 2: "):
        shown("a\n{% for %}")


def test_the_callers_trace_is_kept() -> None:
    def trace(frame: FrameType, event: str, argument: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        shown("{{ bos_token }}")
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
