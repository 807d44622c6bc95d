"""Rows as Parquet files with typed columns, and the part of a card's front matter that describes them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import HubError

Rows = Sequence[Mapping[str, Any]]


def split_paths(splits: Sequence[str], prefix: str = "data") -> dict[str, str]:
    """Return the path of each split's file. The Hub accepts letters, digits and ``_`` in a split's name.

    Raises HubError when two splits would have one name.
    """
    paths = {split: f"{prefix}/{hub_name(split)}.parquet" for split in splits}
    if len(set(paths.values())) < len(paths):
        raise HubError(f"splits {', '.join(splits)} have the same name on the Hub; rename one of them in tasks.jsonl")
    return paths


def hub_name(split: str) -> str:
    """Return the name of a split as the Hub accepts it."""
    return re.sub(r"\W", "_", split, flags=re.ASCII) or "_"


def parquet(rows: Rows, features: Any) -> bytes:
    """Return the bytes of a Parquet file; equal rows give equal bytes. ``features`` is a ``datasets.Features``."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    sink = io.BytesIO()
    Dataset.from_list([dict(row) for row in rows], features=features).to_parquet(sink)
    return sink.getvalue()


def front_matter(fields: Mapping[str, Any], configs: Mapping[str, tuple[Mapping[str, str], Any]]) -> str:
    """Return a card's front matter with its dashes.

    ``configs`` has, for each configuration, the file of each split and the ``datasets.Features`` of the columns; the
    first one is the default.
    """
    from datasets import DatasetInfo
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCardData

    data = DatasetCardData(**fields)
    data["configs"] = [
        {
            "config_name": name,
            "data_files": [{"split": hub_name(split), "path": path} for split, path in files.items()],
            **({"default": True} if number == 0 and len(configs) > 1 else {}),
        }
        for number, (name, (files, _)) in enumerate(configs.items())
    ]
    infos = {name: DatasetInfo(features=features, config_name=name) for name, (_, features) in configs.items()}
    DatasetInfosDict(infos).to_dataset_card_data(data)
    return f"---\n{data.to_yaml()}\n---\n"
