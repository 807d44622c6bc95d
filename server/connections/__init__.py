"""Sessions of ``/ws`` that outlive their sockets: reconnecting with the session's token, and numbered frames.

- ``line.py``: one session, over one socket after another.
- ``lines.py``: all sessions of a server, found by their tokens.
- ``answers.py``: the recorded answers to frames with an id.
- ``socket.py``: one WebSocket as a line uses it.
- ``protocol.py``: uvicorn's WebSockets, whose shutdown no single one can stop.
"""

from __future__ import annotations

from .lines import RECONNECT_S as RECONNECT_S
from .lines import Lines as Lines
from .lines import read_seconds as read_seconds
from .lines import reconnect_seconds as reconnect_seconds
from .socket import Socket as Socket
from .socket import error_frame as error_frame
