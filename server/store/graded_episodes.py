"""Graded episodes in SQLite or PostgreSQL, each under its id and the hash of its session's token."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Engine,
    Float,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from ...errors import InfrastructureError

log = logging.getLogger(__name__)

NONE = "none"
"""Place of a server without a store."""
BUSY_S = 30
"""Seconds that a write to SQLite waits for those of other processes."""
LISTED = 500
MAX_ID = 1000
"""Bytes of the longest id that is stored as it is; PostgreSQL's index takes 2,704 of a row."""
_POSTGRES = "postgresql+psycopg"
_FULL = ("disk is full", "No space left on device", "disk full", "Disk quota exceeded")
"""What SQLite, PostgreSQL and the kernel say of a full disk."""

EPISODES = Table(
    "etude_episodes",
    MetaData(),
    Column("episode_id", Text, primary_key=True),
    Column("token_sha256", String(64), primary_key=True),
    Column("task_id", Text, nullable=False, index=True),
    Column("end", Text, nullable=False),
    Column("reward", Float, nullable=False),
    Column("graded_at", DateTime(timezone=True), nullable=False, index=True),
    Column("episode", LargeBinary, nullable=False, comment="JSON as it is served, compressed with zlib"),
)
"""The one table. No column holds a token, a seed or the name of a hidden test."""
OF_TOKEN = Index("etude_episodes_of_token", EPISODES.c.token_sha256)


class StoreError(ValueError):
    """Raised for a store that cannot be opened."""


class GradedStore:
    """Graded episodes. Its methods block; call them in a thread. Several processes may use one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def place(self) -> str:
        """Return the path or the URL of the store, without a password."""
        url = self._engine.url
        return str(url.database if url.get_backend_name() == "sqlite" else url)

    def save(self, episode: dict[str, Any], token: str) -> None:
        """Write a graded episode durably; the same id and token replace it, so a repeated write changes nothing.

        ``episode`` is as it is served, without seed and grade. Raises InfrastructureError.
        """
        key = {"episode_id": _storable(episode["episode_id"]), "token_sha256": _hash(token)}
        row = {
            **key,
            "task_id": episode["task_id"] or "",
            "end": str(episode["end"]),
            "reward": episode["reward"]["value"],
            "graded_at": datetime.now(UTC),
            "episode": zlib.compress(json.dumps(episode, separators=(",", ":")).encode(), 1),
        }
        try:
            with self._engine.begin() as connection:
                connection.execute(self._upsert(row))
        except SQLAlchemyError as error:
            cause = _cause(error)
            log.error("the store of graded episodes, %s, refused an episode: %s", self.place, cause)
            reason = "the server's log says why"
            if any(text in cause for text in _FULL):
                reason = "the disk of the server's store of episodes is full; make room there and play the task again"
            raise InfrastructureError(f"the graded episode could not be stored: {reason}") from None

    def _upsert(self, row: dict[str, Any]) -> Any:
        """Return the statement that writes a row; two writers of one key at the same time both succeed."""
        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[self._engine.dialect.name]
        statement = insert(EPISODES).values(row)
        keys = [column.name for column in EPISODES.primary_key]
        changes = {name: statement.excluded[name] for name in row if name not in keys}
        return statement.on_conflict_do_update(index_elements=keys, set_=changes)

    def find(self, episode_id: str, token: str) -> bytes | None:
        """Return the JSON of the episode with this id and token, None when there is none. Raises InfrastructureError.

        The tokens are compared by their hashes, which the database does.
        """
        query = select(EPISODES.c.episode).filter_by(episode_id=_storable(episode_id), token_sha256=_hash(token))
        try:
            with self._engine.connect() as connection:
                stored = connection.execute(query).scalar_one_or_none()
        except SQLAlchemyError as error:
            log.error("the store could not be read: %s", _cause(error))
            raise InfrastructureError("the store of episodes could not be read: the server's log says why") from None
        return None if stored is None else zlib.decompress(stored)

    def ids_of(self, token: str) -> list[str]:
        """Return the ids of the newest episodes of a session, at most 500, the oldest first, as they are stored.

        Raises InfrastructureError.
        """
        newest = EPISODES.c.graded_at.desc()
        query = select(EPISODES.c.episode_id).filter_by(token_sha256=_hash(token)).order_by(newest).limit(LISTED)
        try:
            with self._engine.connect() as connection:
                return list(connection.execute(query).scalars())[::-1]
        except SQLAlchemyError as error:
            log.error("the store could not be read: %s", _cause(error))
            raise InfrastructureError("the store of episodes could not be read: the server's log says why") from None

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


def store_of(place: str | Path) -> GradedStore | None:
    """Return the store at a place; '' is the default path, if it can be written; with ``none`` return None.

    Raises StoreError.
    """
    if str(place) == NONE:
        return None
    if place:
        return open_store(place)
    try:
        return open_store(default_path())
    except StoreError as error:
        log.warning("graded episodes end with this process: %s", error)
        return None


def default_path() -> Path:
    """Return the path of the store of a server that is given none."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "etude" / "episodes.sqlite"


def open_store(place: str | Path) -> GradedStore:
    """Return the store at a path (SQLite) or URL, with its table. Raises StoreError.

    ``postgresql://`` URLs use the driver psycopg.
    """
    try:
        engine = _engine(str(place))
        _create_table(engine)
    except ImportError as error:
        raise StoreError(f"--store needs the package {error.name}: pip install 'etude[postgres]'") from None
    except (SQLAlchemyError, OSError) as error:
        advice = "give a path that can be written, a URL like postgresql://USER@HOST/NAME, or none"
        raise StoreError(f"the store of episodes cannot be opened ({_cause(error)}): {advice}") from None
    return GradedStore(engine)


def _create_table(engine: Engine) -> None:
    """Create the table and the index that earlier versions lacked. Raises SQLAlchemyError."""
    for last in (False, True):
        try:
            EPISODES.metadata.create_all(engine)
            OF_TOKEN.create(engine, checkfirst=True)
            return
        except (IntegrityError, ProgrammingError, OperationalError):  # another server created it in the same moment
            if last:
                raise


def _engine(place: str) -> Engine:
    if "://" not in place:
        path = Path(place).expanduser().absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)  # episodes are for the holders of their tokens
        place = f"sqlite:///{path}"
    try:
        url = make_url(place)
    except ArgumentError:
        raise StoreError("--store is no URL of a database: give one like postgresql://USER@HOST/NAME") from None
    if url.get_backend_name() not in ("postgres", "postgresql", "sqlite"):
        raise StoreError(f"--store is a URL of {url.get_backend_name()!r}: give a path, or postgresql://USER@HOST/NAME")
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=_POSTGRES)
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_S})
        event.listen(engine, "connect", _make_durable)
        return engine
    return create_engine(url, pool_pre_ping=True)


def _make_durable(connection: Any, record: Any) -> None:
    """Let readers and a writer work at once, and a commit survive the loss of power."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _hash(token: str) -> str:
    """Return the SHA-256 of a token, which is random and long enough for a hash without salt."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _storable(episode_id: str) -> str:
    """Return an id, which a client may choose, as text that every database takes: the index limits its length."""
    text = episode_id.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return text if len(text.encode()) <= MAX_ID else f"{text[:100]}#{hashlib.sha256(text.encode()).hexdigest()}"


def _cause(error: Exception) -> str:
    """Return the first line of the driver's message, which holds no password and no values."""
    return (str(getattr(error, "orig", None) or error).splitlines() or [type(error).__name__])[0]
