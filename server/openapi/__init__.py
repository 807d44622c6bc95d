"""The OpenAPI document of a server: every operation with its schemas, status codes, security and examples.

- ``operations``: the table of operations; ``bodies``: their requests and answers; ``examples``: one of each.
- ``document``: what FastAPI knows of the routes, with the table's rows in their places.
"""

from __future__ import annotations

from .document import describe as describe
from .document import document as document
