"""What `docai chat` does: one question, or a conversation on a terminal."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from docai.cli.answers import loaded, tell_answer, view
from docai.cli.output import put
from docai.cli.progress import Reporter
from docai.errors import DocaiError, ExitCode, LimitExceeded, UsageError
from docai.render.inputs import expand
from docai.tasks.chat import Chat, answer_json
from docai.tasks.options import ChatOptions, ClipOptions, ModelOptions, PictureOptions, SoundOptions
from docai.tasks.pictures import media_from, sounds_in
from docai.vlm.request import Generation, GenerationOptions
from docai.writing import counted

_HELP = """\
/add FILE     show the model an image, the pages of a PDF or a video with the next question
/audio FILE   let it hear a sound, or that of a video: one in a conversation
/reset        forget the conversation and its images
/quit         end; so does Ctrl-D. Ctrl-C ends an answer
"""


def run_chat(
    inputs: Sequence[str],
    chat: ChatOptions,
    pictures: PictureOptions,
    clips: ClipOptions,
    sounds: SoundOptions,
    model: ModelOptions,
    options: GenerationOptions,
    *,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """The exit code. Raises DocaiError where nothing could be done."""
    names = [*inputs, *(chat.image or ())]
    reporter = Reporter("auto", quiet=quiet, verbose=verbose)
    with reporter.heard():
        _ = model.chosen, options.schema()  # what is wrong with them is said before anything is read
        prompt = _prompt(chat, [*names, *(sounds.audio or ())])
        files = expand(names, max_bytes=pictures.max_bytes) if names else []
        shown = media_from(files, pictures, clips, chat.max_images) + sounds_in(sounds)
        talk = Chat(
            loaded(model, reporter),
            options,
            system=chat.system,
            template=chat.chat_template,
            most_images=chat.max_images,
        )
        talk.add(shown)
        if prompt is not None:
            tell_answer(_answer(talk, prompt, chat, as_json=as_json), options, reporter)
            return ExitCode.OK
        _let_terminate()
        return Conversation(talk, chat, pictures, clips, sounds, options, reporter, as_json=as_json).run()


def _prompt(chat: ChatOptions, names: Sequence[str]) -> str | None:
    """The question that is asked; None for a conversation. Raises UsageError where there is none of either."""
    prompt = chat.prompt
    if prompt == "-" or (prompt is None and not _person()):
        if "-" in names:
            raise UsageError("standard input cannot be both a document and the question; ask with -p")
        prompt = sys.stdin.read() if sys.stdin is not None else ""
    if prompt is not None and not prompt.strip():
        raise UsageError("expected a question: give it with -p, or on standard input")
    return prompt


def _person() -> bool:
    """Whether somebody can type."""
    return sys.stdin is not None and sys.stdin.isatty()


def _let_terminate() -> None:
    """In a conversation Ctrl-C ends an answer; SIGTERM, which is the same elsewhere, still ends the process."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _answer(talk: Chat, prompt: str, chat: ChatOptions, *, as_json: bool) -> Generation:
    """Ask, and print the answer as it comes, or as a JSON object."""
    if as_json:
        answer = talk.ask(prompt)
        put(json.dumps(answer_json(answer, talk.model.name), ensure_ascii=False) + "\n")
        return answer
    with view(thinking=chat.show_thinking) as show:
        return talk.ask(prompt, show)


class Conversation:
    """Turns on a terminal. What goes wrong in one is told, and the conversation goes on."""

    def __init__(
        self,
        talk: Chat,
        chat: ChatOptions,
        pictures: PictureOptions,
        clips: ClipOptions,
        sounds: SoundOptions,
        options: GenerationOptions,
        reporter: Reporter,
        *,
        as_json: bool = False,
        read: Callable[[str], str] = input,
    ) -> None:
        self._talk, self._chat, self._options = talk, chat, options
        self._pictures, self._clips, self._sounds = pictures, clips, sounds
        self._reporter, self._json, self._read = reporter, as_json, read
        self._commands = {"/add": self._add, "/audio": self._hear, "/reset": self._reset, "/help": self._help}

    def run(self) -> int:
        """Until it is left."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - `input` then edits lines and remembers them
        self._reporter.warn(f"{self._talk.model.name}: ask, or /help; {self._images()}")
        while True:
            try:
                line = self._read("> ").strip()
            except EOFError:
                put("\n")
                return ExitCode.OK
            except KeyboardInterrupt:
                put("\n")
                continue
            if line in ("/quit", "/exit"):
                return ExitCode.OK
            if line:
                self._turn(line)

    def _turn(self, line: str) -> None:
        try:
            if line.startswith("/"):
                name, _, rest = line.partition(" ")
                self._commands.get(name, self._unknown)(rest.strip())
            else:
                tell_answer(_answer(self._talk, line, self._chat, as_json=self._json), self._options, self._reporter)
        except DocaiError as error:
            self._reporter.error(str(error))
        except KeyboardInterrupt:
            put("\n")

    def _add(self, name: str) -> None:
        if not name:
            raise UsageError("expected a file: /add FILE")
        most = self._chat.max_images - self._talk.pictures
        if most <= 0:
            raise LimitExceeded(f"there are {self._talk.pictures} images; /reset, or begin with a higher --max-images")
        self._talk.add(media_from(expand([_path(name)]), self._pictures, self._clips, most))
        self._reporter.warn(self._images())

    def _hear(self, name: str) -> None:
        if not name:
            raise UsageError("expected a sound: /audio FILE")
        sounds = sounds_in(replace(self._sounds, audio=[_path(name)]))
        self._talk.add(sounds)
        self._reporter.warn(f"{sounds[0].name} will be heard with the next question")

    def _reset(self, _: str) -> None:
        self._talk.reset()
        self._reporter.warn("the conversation begins anew")

    def _help(self, _: str) -> None:
        put(_HELP)

    def _unknown(self, _: str) -> None:
        raise UsageError(
            "expected /add, /audio, /reset, /help or /quit; a question that begins with / needs a word before it"
        )

    def _images(self) -> str:
        return f"{counted(self._talk.pictures, 'image')} so far"


def _path(name: str) -> str:
    """A file as it was typed, perhaps in quotes or in the home folder."""
    quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
    return str(Path(name[1:-1] if quoted else name).expanduser())
