"""Tasks as Harbor task folders, which need nothing of Etude to be played or graded.

Reading order: ``folders`` (a task's files), ``image`` (the Dockerfile and the layers of the task's Snapshot), ``grade``
(the script that grades inside the container).
"""

from __future__ import annotations

from ..folder_format import FolderFormat, Option
from .folders import write_tasks

FORMAT = FolderFormat(
    write_tasks,
    {
        "base_image": Option("Build on this image; default: the official Python image of the Snapshot's version."),
        "python": Option(
            "Take the image's interpreter, or bundle the Snapshot's (default for another base image).",
            choices=("", "image", "bundle"),
        ),
        "image": Option("Name images NAME:TASK, and write the script that builds them in advance."),
        "network": Option("Network of the agent's container.", "no-network", ("no-network", "public")),
        "verifier": Option(
            "Grade in a container that the agent never touched, or in the agent's.", "separate", ("separate", "shared")
        ),
    },
)
