"""`docai serve`: runs the application until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from datetime import UTC, datetime

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from docai.errors import ExitCode, OutputError
from docai.export.json import dumps
from docai.serve.app import make_app
from docai.serve.options import ServeOptions

LOG = logging.getLogger("docai.serve")
HEAD_SECONDS = 15.0  # that the head of a request may take
TAKE_SECONDS = 60.0  # without a byte that a client takes of a whole answer
_CONNECTIONS = 1024


class Protocol(H11Protocol):
    """HTTP that waits neither for the head of a request nor for an answer to be taken for ever, nor holds any number of
    connections.
    """

    _timer: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS:
            transport.abort()
            return
        self._watch()
        self._watch_taking(0)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)

    def _watch_taking(self, before: int) -> None:
        """Have an end with a client that takes nothing of the rest of an answer; `before`: how much that was.

        As long as more is to come of the answer, whoever sends it has an end with such a client.
        """
        whole = self.transport.is_closing() or self.cycle is None or self.cycle.response_complete
        left = self.transport.get_write_buffer_size() if whole else 0
        if 0 < before <= left:
            self.transport.abort()
        else:
            self._taking = self.loop.call_later(TAKE_SECONDS, self._watch_taking, left)

    def _watch(self) -> None:
        """Wait for the rest of a head that has not come as a whole."""
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


class Server(uvicorn.Server):
    """Tells the application when it is asked to stop, so that what waits for it can end."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        desk = self.config.app.state.desk  # type: ignore[union-attr]
        desk.closing = True
        desk.bells.ring_all()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # of clients that do not take their answers
            connection.transport.abort()
        await asyncio.sleep(0)  # until they have been closed


def serve(options: ServeOptions, *, quiet: bool = False, verbose: int = 0) -> int:
    """Run the server until SIGINT or SIGTERM: the exit code. Raises a DocaiError where it cannot begin."""
    _log(options, quiet, verbose)
    listening = listen(options)
    app = make_app(options)
    server = Server(config_of(app, options))
    host, port = listening.getsockname()[:2]
    where = f"listening at http://{f'[{host}]' if ':' in host else host}:{port}"
    as_json = options.log_format == "json"
    print(dumps({"message": where}).decode() if as_json else f"docai: {where}", file=sys.stderr)  # noqa: T201
    if not options.local and not options.api_key:
        LOG.warning("everybody who reaches %s may ask: no --api-key was given", options.host)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # how uvicorn ends after a signal
        return ExitCode.OK
    finally:
        listening.close()
    return ExitCode.OK


class _NotTaken(logging.Filter):
    """Passes over what uvicorn says of streams whose clients did not take them: that is no mistake."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "ASGI callable returned without completing response."


_NOT_TAKEN = _NotTaken()


def config_of(app: object, options: ServeOptions) -> uvicorn.Config:
    """How uvicorn is to run an application."""
    logging.getLogger("uvicorn.error").addFilter(_NOT_TAKEN)
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=round(options.grace),
        h11_max_incomplete_event_size=1 << 16,
    )


def listen(options: ServeOptions) -> socket.socket:
    """The socket to listen at. Raises OutputError."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio sets no TCP_NODELAY
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((options.host, options.port))
        made.listen(512)
    except OSError as error:
        made.close()
        where = f"{options.host}:{options.port}"
        raise OutputError(f"cannot listen at {where}: {error.strerror or error}; choose another --port") from error
    return made


class JsonLines(logging.Formatter):
    """A JSON object a line: of a request with its id, route, status and time, of anything else with its message."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, object] = {"time": when, "level": record.levelname.lower()}
        said |= getattr(record, "said", {"message": record.getMessage()})
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return dumps(said).decode()


def _log(options: ServeOptions, quiet: bool, verbose: int) -> None:
    """Lines on standard error, without anything of documents or questions."""
    handler = logging.StreamHandler()
    as_text = logging.Formatter("docai: %(levelname)s: %(message)s")
    handler.setFormatter(JsonLines() if options.log_format == "json" else as_text)
    for name in ("docai.serve", "uvicorn"):
        log = logging.getLogger(name)
        log.addHandler(handler)
        log.propagate = False
    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    logging.getLogger("docai.serve").setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
