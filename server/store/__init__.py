"""Store of graded episodes, which outlives the server's process."""

from __future__ import annotations

from .graded_episodes import GradedStore as GradedStore
from .graded_episodes import StoreError as StoreError
from .graded_episodes import open_store as open_store
from .graded_episodes import store_of as store_of
