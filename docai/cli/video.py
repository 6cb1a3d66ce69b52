"""What `docai video` does: one question about videos, and pictures beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from docai.batch.outputs import check_writable, write_whole
from docai.cli.answers import loaded, tell_answer, view
from docai.cli.output import put
from docai.cli.progress import Reporter
from docai.errors import ExitCode, UsageError
from docai.render.inputs import expand
from docai.tasks.chat import answer_json
from docai.tasks.options import ClipOptions, ModelOptions, PictureOptions, SoundOptions, VideoOptions
from docai.tasks.pictures import media_from, sounds_in
from docai.tasks.video import contact_sheet, shown, talk_about
from docai.vlm.request import GenerationOptions


def run_video(
    words: Sequence[str],
    asked: VideoOptions,
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
    reporter = Reporter("auto", quiet=quiet, verbose=verbose)
    with reporter.heard():
        _ = model.chosen, options.schema()  # what is wrong with them is said before anything is read
        names, question = files_and_question(words, asked)
        if asked.contact_sheet is not None:
            check_writable(Path(asked.contact_sheet).absolute().parent)
        pictures = PictureOptions(max_bytes=clips.max_bytes, max_pixels=clips.max_pixels)
        media = media_from(expand(names, max_bytes=clips.max_bytes), pictures, clips, asked.max_images, moving=True)
        media += sounds_in(sounds)
        talk = talk_about(loaded(model, reporter), media, asked, options)
        if as_json:
            answer = talk.ask(question)
            videos = [one.as_json() for one in shown(talk.model, media)]
            said = {**answer_json(answer, talk.model.name), "videos": videos}
            put(json.dumps(said, ensure_ascii=False) + "\n")
        else:
            with view(thinking=asked.show_thinking) as show:
                answer = talk.ask(question, show)
        tell_answer(answer, options, reporter)
        if asked.contact_sheet is not None:
            write_whole(Path(asked.contact_sheet), contact_sheet(talk.model, media))
    return ExitCode.OK


def files_and_question(words: Sequence[str], asked: VideoOptions) -> tuple[Sequence[str], str]:
    """The files, and the question behind them or of --prompt. Raises UsageError where one is missing."""
    prompt = asked.prompt
    names = words if prompt is not None else words[:-1]
    if prompt is None and words and Path(words[-1]).is_file():
        raise UsageError(
            f'expected a question behind the files; {words[-1]} is one: docai video clip.mp4 "what happens?"'
        )
    if not names:
        raise UsageError('expected a video and a question: docai video clip.mp4 "what happens?"')
    question = words[-1] if prompt is None else prompt
    if question == "-":
        if "-" in names:
            raise UsageError("standard input cannot be both a video and the question")
        question = _stdin()
    if not question.strip():
        raise UsageError("expected a question; got nothing")
    return names, question


def _stdin() -> str:
    import sys

    return sys.stdin.read() if sys.stdin is not None else ""
