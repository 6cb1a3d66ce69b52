"""What outlives a request: uploaded files and jobs, with their finished pages. SQLite and a folder beside it."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from docai.errors import OutputError
from docai.export.json import dumps
from docai.serve.errors import busy

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS files (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, purpose TEXT NOT NULL, bytes INTEGER NOT NULL,
  created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, options TEXT NOT NULL, created REAL NOT NULL,
  state TEXT NOT NULL, ended REAL, error TEXT, head TEXT, total INTEGER);
CREATE TABLE IF NOT EXISTS pages (
  number INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, page INTEGER NOT NULL, told TEXT NOT NULL,
  said TEXT NOT NULL, UNIQUE (job, page));
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
OVER = ("done", "failed", "cancelled")
STATES = ("queued", "running", *OVER)


@dataclass(frozen=True, slots=True)
class File:
    """An uploaded file."""

    id: str
    owner: str
    name: str
    purpose: str
    bytes: int
    created: float


@dataclass(frozen=True, slots=True)
class Job:
    """A document that is read beside all requests. `head`: what its file says of itself, known once it was opened."""

    id: str
    owner: str
    name: str
    options: dict[str, Any]
    created: float
    state: str
    ended: float | None = None
    error: dict[str, Any] | None = None
    head: dict[str, Any] | None = None
    total: int | None = None

    @property
    def over(self) -> bool:
        return self.state in OVER


class Store:
    """Files and jobs. Threads share it; only one server at a time may hold a folder."""

    def __init__(self, folder: Path, keep: float, most: int = 1 << 40) -> None:
        """`keep`: seconds for which what is over is kept; `most`: bytes of all documents."""
        self._folder, self._keep, self._most, self._bytes = folder, keep, most, 0
        self._lock = threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (folder / "files").mkdir(exist_ok=True, mode=0o700)
            self._held = _hold(folder)
            self._db = sqlite3.connect(folder / "state.sqlite", check_same_thread=False, isolation_level=None)
            (folder / "state.sqlite").chmod(0o600)
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot keep jobs in {folder}: {error}; choose another folder with --state") from error
        self._tidy()
        self.expire()

    def close(self) -> None:
        with self._lock:
            self._db.close()
            os.close(self._held)

    def _tidy(self) -> None:
        """Remove what a server that was killed has left half done."""
        known = {row[0] for row in self._db.execute("SELECT id FROM files UNION SELECT id FROM jobs")}
        for path in (self._folder / "files").iterdir():
            if path.name not in known:
                path.unlink(missing_ok=True)
            else:
                self._bytes += path.stat().st_size

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                yield self._db
        except sqlite3.Error as error:
            raise OutputError(f"cannot keep jobs: {error}") from error

    def secret(self) -> bytes:
        """A key of this folder's own, to sign addresses with."""
        with self._changing() as db:
            db.execute("INSERT OR IGNORE INTO secrets VALUES ('urls', ?)", (secrets.token_bytes(32),))
            value: bytes = db.execute("SELECT value FROM secrets WHERE name = 'urls'").fetchone()[0]
            return value

    def expire(self) -> None:
        """Forget what has been kept long enough."""
        before = time.time() - self._keep
        with self._changing() as db:
            files = db.execute("SELECT id FROM files WHERE created < ?", (before,)).fetchall()
            jobs = db.execute("SELECT id FROM jobs WHERE ended < ?", (before,)).fetchall()
        for (number,) in files:
            self.drop_file(number)
        for (number,) in jobs:
            self.drop_job(number)

    # --- files

    def path(self, number: str) -> Path:
        """Where the bytes of a file or of a job's document are."""
        return self._folder / "files" / number

    def _write(self, number: str, data: bytes) -> None:
        path = self.path(number)
        with self._lock:
            if self._bytes + len(data) > self._most:
                raise busy(f"documents of {self._bytes} bytes are kept already (--max-stored); delete some")
            self._bytes += len(data)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
        except OSError as error:
            with self._lock:
                self._bytes -= len(data)
            path.unlink(missing_ok=True)
            raise OutputError(f"cannot keep the file: {error.strerror or error}") from error

    @contextmanager
    def _written(self, number: str, data: bytes) -> Iterator[sqlite3.Connection]:
        """Write the bytes of what is about to be known; they do not stay where that fails."""
        self._write(number, data)
        try:
            with self._changing() as db:
                yield db
        except BaseException:
            self._remove(number)
            raise

    def _remove(self, number: str) -> None:
        path = self.path(number)
        with self._lock, suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            self._bytes -= size

    def add_file(self, owner: str, name: str, purpose: str, data: bytes) -> File:
        """Keep an uploaded file."""
        file = File(f"file-{secrets.token_hex(12)}", owner, name, purpose, len(data), time.time())
        with self._written(file.id, data) as db:
            row = (file.id, file.owner, file.name, file.purpose, file.bytes, file.created)
            db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
        return file

    def file(self, number: str, owner: str | None) -> File | None:
        """An uploaded file of `owner`; None where there is none. The owner None is whoever it may be."""
        with self._changing() as db:
            row = db.execute("SELECT * FROM files WHERE id = ?", (number,)).fetchone()
        return None if row is None or (owner is not None and row[1] != owner) else File(*row)

    def files(self, owner: str) -> list[File]:
        with self._changing() as db:
            rows = db.execute("SELECT * FROM files WHERE owner = ? ORDER BY created DESC", (owner,)).fetchall()
        return [File(*row) for row in rows]

    def drop_file(self, number: str) -> None:
        with self._changing() as db:
            db.execute("DELETE FROM files WHERE id = ?", (number,))
        self._remove(number)

    # --- jobs

    def add_job(self, owner: str, name: str, options: dict[str, Any], data: bytes) -> Job:
        """Keep a document to be read."""
        job = Job(f"job-{secrets.token_hex(12)}", owner, name, options, time.time(), "queued")
        with self._written(job.id, data) as db:
            row = (job.id, owner, name, dumps(options).decode(), job.created, job.state)
            db.execute("INSERT INTO jobs (id, owner, name, options, created, state) VALUES (?, ?, ?, ?, ?, ?)", row)
        return job

    def job(self, number: str, owner: str | None) -> Job | None:
        """A job of `owner`; None where there is none. The owner None is whoever it may be."""
        with self._changing() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (number,)).fetchone()
        return None if row is None or (owner is not None and row[1] != owner) else _job(row)

    def jobs(self, owner: str) -> list[Job]:
        with self._changing() as db:
            rows = db.execute("SELECT * FROM jobs WHERE owner = ? ORDER BY created DESC", (owner,)).fetchall()
        return [_job(row) for row in rows]

    def unfinished(self) -> list[Job]:
        """The jobs that are still to be done, the oldest first."""
        with self._changing() as db:
            rows = db.execute(
                "SELECT * FROM jobs WHERE state IN ('queued', 'running') ORDER BY created, rowid"
            ).fetchall()
        return [_job(row) for row in rows]

    def counts(self) -> dict[str, float]:
        """The number of jobs in each state."""
        with self._changing() as db:
            found = dict(db.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state").fetchall())
        return {state: float(found.get(state, 0)) for state in STATES}

    def begin(self, number: str, head: dict[str, Any], total: int) -> None:
        """The document of a job has been opened. One that was cancelled meanwhile stays so."""
        with self._changing() as db:
            said = dumps(head).decode()
            db.execute(
                "UPDATE jobs SET state = 'running', head = ?, total = ? "
                "WHERE id = ? AND state IN ('queued', 'running')",
                (said, total, number),
            )

    def end(self, number: str, state: str, error: dict[str, Any] | None = None) -> bool:
        """A job is over; False where it was already."""
        with self._changing() as db:
            said = None if error is None else dumps(error).decode()
            row = (state, time.time(), said, number)
            changed = db.execute(
                "UPDATE jobs SET state = ?, ended = ?, error = ? WHERE id = ? AND state IN ('queued', 'running')", row
            )
            return changed.rowcount > 0

    def drop_job(self, number: str) -> None:
        with self._changing() as db:
            db.execute("DELETE FROM pages WHERE job = ?", (number,))
            db.execute("DELETE FROM jobs WHERE id = ?", (number,))
        self._remove(number)

    def keep_page(self, number: str, page: int, told: dict[str, Any], said: dict[str, Any]) -> None:
        """A finished page, as `docai.export.json.page_json` says it; what is `told` of it in short.

        One of a job that is over, or forgotten, is not kept.
        """
        with self._changing() as db:
            row = (number, page, dumps(told).decode(), dumps(said).decode(), number)
            db.execute(
                "INSERT OR REPLACE INTO pages (job, page, told, said) SELECT ?, ?, ?, ? "
                "WHERE EXISTS (SELECT 1 FROM jobs WHERE id = ? AND state IN ('queued', 'running'))",
                row,
            )

    def told(self, number: str, after: int) -> list[tuple[int, dict[str, Any]]]:
        """What was told of pages of a job behind `after`, in the order in which they were done."""
        with self._changing() as db:
            asked = "SELECT number, told FROM pages WHERE job = ? AND number > ? ORDER BY number"
            return [(row[0], orjson.loads(row[1])) for row in db.execute(asked, (number, after)).fetchall()]

    def page(self, number: str, page: int) -> dict[str, Any] | None:
        """A finished page."""
        with self._changing() as db:
            row = db.execute("SELECT said FROM pages WHERE job = ? AND page = ?", (number, page)).fetchone()
        return None if row is None else orjson.loads(row[0])

    def pages(self, number: str) -> list[dict[str, Any]]:
        """The finished pages of a job, in their order."""
        with self._changing() as db:
            rows = db.execute("SELECT said FROM pages WHERE job = ? ORDER BY page", (number,)).fetchall()
        return [orjson.loads(row[0]) for row in rows]

    def page_count(self, number: str) -> int:
        with self._changing() as db:
            count: int = db.execute("SELECT COUNT(*) FROM pages WHERE job = ?", (number,)).fetchone()[0]
            return count


def _job(row: Sequence[Any]) -> Job:
    number, owner, name, options, created, state, ended, error, head, total = row
    read = [None if text is None else orjson.loads(text) for text in (options, error, head)]
    return Job(number, owner, name, read[0] or {}, created, state, ended, read[1], read[2], total)


def _hold(folder: Path) -> int:
    """A lock on the folder, as long as the process lives. Raises OSError where another server has it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # no such locks on this system
        return handle
    except OSError:
        os.close(handle)
        raise OSError("another server is using it") from None
    return handle
