"""Text into ids and back, by a checkpoint's own tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from docai.checkpoint.vocab.ends import surround
from docai.checkpoint.vocab.files import Files, read_vocabulary
from docai.errors import CheckpointError

Fields = Mapping[str, Any]


class HasFiles(Files, Protocol):
    """A checkpoint, as far as it is read here."""

    @property
    def config(self) -> Fields:
        """config.json."""
        ...

    def json_file(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A `tokenizers.Tokenizer` with what the checkpoint says beside it.

    `named` holds the texts of bos_token, eos_token and so on, as chat templates ask for them; `stops` the ids that end
    a generation. `tool_template` is a second chat template, for prompts with tools. `longest`: how many tokens a
    text may have, None where the checkpoint does not say it.
    """

    backend: Backend
    named: Mapping[str, str] = field(default_factory=dict)
    stops: frozenset[int] = frozenset()
    chat_template: str | None = None
    tool_template: str | None = None
    longest: int | None = None

    @classmethod
    def from_checkpoint(cls, checkpoint: HasFiles) -> Tokenizer:
        """The tokenizer of a checkpoint, whichever kind of file it has. Raises CheckpointError."""
        config = checkpoint.json_file("tokenizer_config.json") or {}
        tokens_map = checkpoint.json_file("special_tokens_map.json") or {}
        if not isinstance(config.get("added_tokens_decoder") or {}, Mapping):
            raise CheckpointError(
                "tokenizer_config.json: expected added_tokens_decoder to be an object of ids and tokens"
            )
        vocabulary = read_vocabulary(checkpoint, config)
        backend = vocabulary.tokenizer
        named = {**vocabulary.named, **_named(tokens_map), **_named(config)}
        backend.no_truncation()  # tokenizer.json may keep what its training cut texts to
        backend.no_padding()
        _add_tokens(backend, _listed_tokens(checkpoint, config, tokens_map))
        _add_tokens(backend, (AddedToken(text, normalized=False, special=True) for text in named.values()))
        if not vocabulary.complete:
            before = named.get("bos_token") if config.get("add_bos_token", vocabulary.adds_bos) else None
            surround(backend, before, named.get("eos_token") if config.get("add_eos_token") else None)
        templates = _templates(checkpoint, config)
        return cls(
            backend,
            named,
            _stops(checkpoint, backend, named),
            chat_template=templates.get("default"),
            tool_template=templates.get("tool_use"),
            longest=_longest(config),
        )

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The ids of `text`; with `special`, those that the model expects around it (such as BOS) are added."""
        ids: list[int] = self.backend.encode(text, add_special_tokens=special).ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of `ids`, without special tokens unless they are asked for."""
        text: str = self.backend.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def token_id(self, token: str) -> int | None:
        """The id of exactly this token, or None."""
        number: int | None = self.backend.token_to_id(token)
        return number

    def token(self, number: int) -> str | None:
        """The token with this id, as the vocabulary spells it."""
        text: str | None = self.backend.id_to_token(number)
        return text

    def stopping_at(self, tokens: Iterable[str]) -> Tokenizer:
        """The same, with more tokens that end a generation; those that it does not have are left out."""
        found = (self.token_id(token) for token in tokens)
        return replace(self, stops=self.stops | {number for number in found if number is not None})

    @property
    def size(self) -> int:
        """The number of tokens, added ones too."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))


def _longest(config: Fields) -> int | None:
    value = config.get("model_max_length")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if 1 <= value < math.inf else None


def _named(fields: Fields) -> dict[str, str]:
    """bos_token, image_token and the like; a value may be a text or the description of an added token."""
    values = {name: value for name, value in fields.items() if name.endswith("_token")}
    extra = fields.get("extra_special_tokens")
    if isinstance(extra, Mapping):  # names that a model has beside the usual ones
        values |= extra
    return {name: text for name, value in values.items() if (text := _content(value))}


def _content(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _listed_tokens(checkpoint: HasFiles, config: Fields, tokens_map: Fields) -> Iterator[AddedToken]:
    """The tokens beside the vocabulary, in the order of their ids."""
    listed = config.get("added_tokens_decoder") or {}
    for value in _by_id((number, value) for number, value in listed.items()):
        yield _added_token(value)
    if not listed:
        special = {*_named(tokens_map).values(), *_named(config).values(), *_extra(config), *_extra(tokens_map)}
        older = checkpoint.json_file("added_tokens.json") or {}
        for text in _by_id((number, text) for text, number in older.items()):
            yield AddedToken(text, normalized=text not in special, special=text in special)
    for text in (*_extra(config), *_extra(tokens_map)):
        yield AddedToken(text, normalized=False, special=True)


def _by_id(numbered: Iterable[tuple[Any, Any]]) -> list[Any]:
    try:
        return [value for _, value in sorted(numbered, key=lambda entry: int(entry[0]))]
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the tokenizer's added tokens: expected numbers as their ids: {error}") from error


def _extra(fields: Fields) -> list[str]:
    lists = (fields.get(name) for name in ("additional_special_tokens", "extra_special_tokens"))
    return [text for values in lists if isinstance(values, list) for value in values if (text := _content(value))]


def _added_token(value: object) -> AddedToken:
    text = _content(value)
    if text is None or not isinstance(value, Mapping):
        raise CheckpointError(f"tokenizer_config.json: expected an added token with its content, got {value!r}")
    flags = {name: bool(value[name]) for name in ("lstrip", "rstrip", "single_word", "normalized") if name in value}
    return AddedToken(text, special=bool(value.get("special")), **flags)


def _add_tokens(backend: Backend, tokens: Iterable[AddedToken]) -> None:
    """Adds those that the vocabulary does not match whole already; a token keeps the id that it has."""
    known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
    for token in tokens:
        if token.content in known and (known[token.content].special or not token.special):
            continue
        known[token.content] = token
        if token.special:
            backend.add_special_tokens([token])
        else:
            backend.add_tokens([token])


def _templates(checkpoint: HasFiles, config: Fields) -> dict[str, str]:
    """Chat templates by name, from the file that counts: a template of its own, the processor's, the tokenizer's."""
    processor = checkpoint.json_file("chat_template.json") or checkpoint.json_file("processor_config.json") or {}
    texts = checkpoint.text_file("chat_template.jinja"), processor.get("chat_template"), config.get("chat_template")
    template = next((text for text in texts if text), None)
    if isinstance(template, str):
        return {"default": template}
    named = template if isinstance(template, list) else []
    entries = (entry for entry in named if isinstance(entry, Mapping) and {"name", "template"} <= entry.keys())
    return {str(entry["name"]): str(entry["template"]) for entry in entries}


def _stops(checkpoint: HasFiles, backend: Backend, named: Mapping[str, str]) -> frozenset[int]:
    """generation_config.json wins; without it, what config.json and the tokenizer call the end."""
    generation = checkpoint.json_file("generation_config.json") or {}
    if ids := _ids(generation.get("eos_token_id")):
        return ids
    config = checkpoint.config
    text = config.get("text_config") or {}
    end = backend.token_to_id(named["eos_token"]) if "eos_token" in named else None
    return _ids(config.get("eos_token_id")) | _ids(text.get("eos_token_id")) | _ids(config.get("eos_id")) | _ids(end)


def _ids(value: object) -> frozenset[int]:
    values = value if isinstance(value, list) else [value]
    return frozenset(number for number in values if isinstance(number, int))
