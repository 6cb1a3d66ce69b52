"""Chat templates of checkpoints: Jinja programs by strangers, run in a sandbox and within bounds.

The environment has the settings and helpers of transformers (`render_jinja_template`), so that the same templates run
to the same text.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, wraps
from types import FrameType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from docai.errors import CheckpointError, UsageError

MOST_SECONDS = 10.0  # real templates take milliseconds
MOST_TEXT = 64 << 20  # characters, of one value or of the whole: far above any context window

_WAY_OUT = "; --no-chat-template asks without it"


class TooMuch(Exception):
    """A template crosses a bound; the text says which."""


class EndlessTemplate(CheckpointError):
    """A template that would take more time or memory than it may, whatever it is given."""


def render_template(source: str, variables: Mapping[str, Any]) -> str:
    """The text that a chat template makes of `variables`, all of them plain JSON values.

    Raises UsageError where the template refuses them, CheckpointError where it is broken or does what it may not.
    """
    template = _compiled(source)
    pieces: list[str] = []
    size = 0
    try:
        with _deadline(template.filename or "<template>"):
            for piece in template.generate(variables):
                size += len(piece)
                if size > MOST_TEXT:
                    raise TooMuch(f"writes more than {MOST_TEXT} characters")
                pieces.append(piece)
    except Refusal as error:
        raise UsageError(f"the checkpoint's chat template refuses these messages: {error}{_WAY_OUT}") from error
    except SecurityError as error:
        raise CheckpointError(f"the checkpoint's chat template does what a template may not: {error}") from error
    except TooMuch as error:
        raise EndlessTemplate(f"the checkpoint's chat template {error}{_WAY_OUT}") from error
    except (RecursionError, MemoryError) as error:
        raise EndlessTemplate(f"the checkpoint's chat template recurses or grows without end{_WAY_OUT}") from error
    except Exception as error:  # whatever its program runs into
        raise UsageError(
            f"the checkpoint's chat template fails on these messages: {type(error).__name__}: {error}{_WAY_OUT}"
        ) from error
    return "".join(pieces)


class Refusal(jinja2.TemplateError):
    """The template called raise_exception."""


class _Names(Namespace):
    """Jinja's namespace, without names by which Python's own could be reached."""

    def __init__(*args: Any, **values: Any) -> None:
        Namespace.__init__(*args, **values)
        for name in dict(*args[1:], **values):
            _check_name(name)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: object) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace takes no name that begins with an underscore: {name!r}")


class _Generation(Extension):
    """`{% generation %}` marks what the model wrote, for training; here it is only its body."""

    tags = {"generation"}  # noqa: RUF012  # as Extension declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Macro) -> str:
        return str(caller())


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's, which keeps templates from Python; here also from values that no memory holds."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operation whose result may be large, unless it is too large."""
        if operator == "*" and _length(left) * _times(right) + _length(right) * _times(left) > MOST_TEXT:
            raise TooMuch(_TOO_LONG)
        if operator == "**" and abs(right) > 64:
            raise TooMuch("raises a number to a power above 64")
        if operator == "%" and isinstance(left, str):
            _check_widths(left, *(right if isinstance(right, tuple) else ()))
        return _checked(super().call_binop(context, operator, left, right))

    def call(self, context: Context, function: Any, /, *args: Any, **values: Any) -> Any:
        """A call of a function or method that the template makes."""
        _check_sizes(*args, *values.values())
        return _checked(super().call(context, function, *args, **values))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The stand-in for a text's `format`."""
        stand_in = super().wrap_str_format(value)
        if stand_in is not None:
            _check_widths(value.__self__)
        return stand_in


_TOO_LONG = f"makes a value of more than {MOST_TEXT} characters"
_WIDE = re.compile(r"[%{][^%{}a-zA-Z]*\d{8}")  # a format such as %99999999d


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | tuple) else 0


def _times(value: object) -> int:
    return value if isinstance(value, int) else 0


def _check_sizes(*values: object) -> None:
    if any(_times(value) > MOST_TEXT for value in values):
        raise TooMuch(_TOO_LONG)


def _check_widths(form: str, *values: object) -> None:
    if _WIDE.search(form):
        raise TooMuch(_TOO_LONG)
    _check_sizes(*values)  # %*d takes its width from a value


def _checked(value: Any) -> Any:
    if _length(value) > MOST_TEXT:
        raise TooMuch(_TOO_LONG)
    return value


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result are within bounds; `wraps` keeps Jinja's marks on it."""

    @wraps(function)
    def guarded(*args: Any, **values: Any) -> Any:
        _check_sizes(*args, *values.values())
        return _checked(function(*args, **values))

    return guarded


@lru_cache(maxsize=32)
def _compiled(source: str) -> jinja2.Template:
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters = {name: _guarded(function) for name, function in environment.filters.items()}
    environment.filters |= {"tojson": _to_json, "format": _format}
    environment.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": _dict,
        "namespace": _Names,
    }
    try:
        template = environment.from_string(source)
    except (jinja2.TemplateError, RecursionError) as error:
        line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise CheckpointError(
            f"the checkpoint's chat template is no Jinja template{line}: {error}{_WAY_OUT}"
        ) from error
    # `~`, the one operator that cannot be intercepted, calls this name
    joined = template.root_render_func.__globals__
    joined["str_join"] = _bounded(joined["str_join"])
    return template


def _bounded(join: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda parts: _checked(join(parts))


def _dict(*args: Any, **values: Any) -> dict[Any, Any]:
    """dict(), as a function: the class would lead to others."""
    return dict(*args, **values)


def _format(form: str, *args: Any, **values: Any) -> str:
    """Jinja's filter `format`, within bounds."""
    _check_widths(form, *args)
    return _checked(str(form) % (values or args))


def _refuse(message: str) -> None:
    raise Refusal(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the escapes for HTML that Jinja's own filter adds."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@contextmanager
def _deadline(filename: str) -> Iterator[None]:
    """Ends the template when its time is up, by a look at the clock on each of its lines.

    A template's loops run in compiled Python, in whatever thread asks; nothing else can stop one from within the
    process.
    """
    end = time.monotonic() + MOST_SECONDS

    def watch(frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != filename:
            return None
        if time.monotonic() > end:
            raise TooMuch(f"runs for more than {MOST_SECONDS:g} seconds")
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)
