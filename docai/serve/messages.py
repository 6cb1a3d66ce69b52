"""Conversations as clients send them, for a model: texts, and the pictures, videos and sound of all parts in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from docai.errors import DocaiError
from docai.render.inputs import InputFile
from docai.serve.errors import ApiError, translated
from docai.serve.media import Content, Media
from docai.serve.options import ServeOptions
from docai.serve.schemas import Message
from docai.tasks.options import PictureOptions, parse_pages
from docai.tasks.pictures import is_movie

if TYPE_CHECKING:
    from docai.serve.models import Closes
    from docai.vlm.clips import Medium


@dataclass(slots=True)
class Conversation:
    """What a model is to read. `sources` are the open documents of the pictures."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    media: list[Medium] = field(default_factory=list)
    sources: list[Closes] = field(default_factory=list)

    def close(self) -> None:
        for source in self.sources:
            source.close()


class Reader:
    """Reads one conversation. It waits for files and addresses: not for the event loop."""

    def __init__(self, media: Media, options: ServeOptions, owner: str) -> None:
        self._media, self._options, self._owner = media, options, owner
        self._talk = Conversation()
        self._left = options.max_body  # bytes that may still be named: what a request names counts like its body

    def read(self, messages: Sequence[Message]) -> Conversation:
        """Raises ApiError, naming the part that is wrong."""
        try:
            for number, message in enumerate(messages):
                self._talk.messages.append(self._message(message, f"messages.{number}"))
        except BaseException:
            self._talk.close()
            raise
        return self._talk

    def _message(self, message: Message, place: str) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "system" if message.role == "developer" else message.role}
        if isinstance(message.content, list):
            parts = [self._part(part, f"{place}.content.{n}") for n, part in enumerate(message.content)]
            said["content"] = [part for several in parts for part in several]
        elif message.content is not None or not message.tool_calls:
            said["content"] = message.content or ""
        if message.tool_calls:
            said["tool_calls"] = [_call(call, f"{place}.tool_calls.{n}") for n, call in enumerate(message.tool_calls)]
        more = {name: getattr(message, name) for name in ("name", "tool_call_id", "reasoning_content")}
        return said | {name: value for name, value in more.items() if value is not None}

    def _part(self, part: dict[str, Any], place: str) -> list[dict[str, Any]]:
        kind = part.get("type")
        match kind:
            case "text" | "input_text" | "output_text" | "refusal":
                text = part.get("refusal" if kind == "refusal" else "text")
                if not isinstance(text, str):
                    raise _wrong(place, "expected a text")
                return [{"type": "text", "text": text}]
            case "image_url" | "input_image":
                return self._pictures(self._image(part, place), place, None)
            case "video_url":
                return self._video(part, place)
            case "file" | "input_file":
                return self._file(part, place)
            case "input_audio" | "audio_url":
                return self._sound(part, place)
        raise _wrong(place, f"expected a part of type text, image_url, input_audio or file; got {str(kind)[:60]!r}")

    def _image(self, part: dict[str, Any], place: str) -> Content:
        said = part.get("image_url")
        url = said.get("url") if isinstance(said, dict) else said
        if isinstance(part.get("file_id"), str) and url is None:
            return self._uploaded(part["file_id"], place)
        if not isinstance(url, str):
            raise _wrong(place, 'expected {"image_url": {"url": ...}}')
        return self._got(url, place)

    def _video(self, part: dict[str, Any], place: str) -> list[dict[str, Any]]:
        """A video, of which so many frames a second are looked at. How many are shown is the model's matter."""
        from docai.vlm.clips import clip_of

        said = part.get("video_url")
        url = said.get("url") if isinstance(said, dict) else said
        rate = (said.get("fps") if isinstance(said, dict) else None) or part.get("fps") or self._options.video_fps
        if not isinstance(url, str):
            raise _wrong(place, 'expected {"video_url": {"url": ...}}')
        if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0.001 <= rate <= 1000:
            raise _wrong(place, "fps: expected a number of frames a second")
        self._check_room(1, place)
        content = self._got(url, place)
        file = InputFile(None, None, content.name, content.data)
        try:
            if not is_movie(file):
                raise _wrong(place, "expected a video; this is none")
            clip = clip_of(file, fps=rate, most=self._options.video_max_frames, limits=self._options.limits)
            self._talk.sources.append(clip.video)
        except DocaiError as error:
            raise _placed(error, place) from error
        self._talk.media.append(clip)
        return [{"type": "video"}]

    def _sound(self, part: dict[str, Any], place: str) -> list[dict[str, Any]]:
        """A sound. It is opened once it is known that the model takes any; what its format is called does not count."""
        from docai.vlm.sounds import Sound, sound_of

        kind, name = ("input_audio", "data") if part["type"] == "input_audio" else ("audio_url", "url")
        said = part.get(kind)
        given = said.get(name) if isinstance(said, dict) else said
        if not isinstance(given, str):
            raise _wrong(place, f'expected audio as {{"{kind}": {{"{name}": ...}}}}')
        if any(isinstance(medium, Sound) for medium in self._talk.media):
            raise _wrong(place, "expected one audio clip in a request; this is the second")
        whole = given if name == "url" or given[:5].lower() == "data:" else f"data:;base64,{given}"
        content = self._got(whole, place)
        sound = sound_of(InputFile(None, None, place, content.data), limits=self._options.limits)
        self._talk.media.append(sound)
        self._talk.sources.append(sound)
        return [{"type": "audio"}]

    def _file(self, part: dict[str, Any], place: str) -> list[dict[str, Any]]:
        said = part.get("file") if isinstance(part.get("file"), dict) else part
        assert isinstance(said, dict)
        data, number, url = (said.get(name) for name in ("file_data", "file_id", "file_url"))
        if isinstance(number, str):
            content = self._uploaded(number, place)
        elif isinstance(data, str):
            whole = data if data[:5].lower() == "data:" else f"data:;base64,{data}"
            content = self._got(whole, place)
        elif isinstance(url, str):
            content = self._got(url, place)
        else:
            raise _wrong(place, "expected a file with file_data, file_id or file_url")
        name, pages = said.get("filename"), said.get("pages")
        if pages is not None and not isinstance(pages, str):
            raise _wrong(place, "pages: expected a text such as 1-3,7")
        named = Content(name[:200], content.data) if isinstance(name, str) and name else content
        return self._pictures(named, place, pages)

    def _got(self, named: str, place: str) -> Content:
        return self._counted(self._media.get(named, place), place)

    def _uploaded(self, number: str, place: str) -> Content:
        return self._counted(self._media.file(number, self._owner, place), place)

    def _counted(self, content: Content, place: str) -> Content:
        self._left -= len(content.data)
        if self._left < 0:
            told = f"what the request names is larger than the {self._options.max_body} bytes allowed (--max-body)"
            raise ApiError(413, told, code="too_large", param=place)
        return content

    def _check_room(self, more: int, place: str) -> None:
        """Raise ApiError 413 where there would be too many pictures, of which a video is at least one."""
        most = self._options.max_images
        if len(self._talk.media) + more > most:
            told = f"more than the {most} images allowed (--max-images)"
            raise ApiError(413, told, code="too_many_images", param=place)

    def _pictures(self, content: Content, place: str, pages: str | None) -> list[dict[str, Any]]:
        """The parts of a file: an image for each page."""
        from docai.render.document import open_document
        from docai.vlm.features import bytes_key
        from docai.vlm.pictures import pictures_of

        file = InputFile(None, None, content.name, content.data)
        try:
            source = open_document(file, limits=self._options.limits)
            self._talk.sources.append(source)
            chosen = range(source.page_count) if pages is None else parse_pages(pages, source.page_count)
            self._check_room(len(chosen), place)
            seen = pictures_of(source, chosen, bytes_key(content.data), PictureOptions().dpi)
        except DocaiError as error:
            raise _placed(error, place) from error
        self._talk.media += seen
        return [{"type": "image"} for _ in seen]


def _call(call: dict[str, Any], place: str) -> dict[str, Any]:
    """A call of a tool; templates take its arguments as an object."""
    said = call.get("function")
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(name, str):
        raise _wrong(place, "expected a call with a function and its name")
    arguments = said.get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            raise _wrong(place, "arguments: expected JSON") from None
    return {"id": str(call.get("id", "")), "type": "function", "function": {"name": name, "arguments": arguments}}


def _placed(error: DocaiError, place: str) -> ApiError:
    told = translated(error)
    told.param = place
    return told


def _wrong(place: str, message: str) -> ApiError:
    return ApiError(400, f"{place}: {message}", code="invalid_value", param=place)
