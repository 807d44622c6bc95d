"""The page for people at ``/web``."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from etude.environments.tasks.task_set import TaskSet
from etude.models import GeneratorRef, Task
from etude.server.application import create_app

SECRET = "SECRET_OF_THE_TASK"


@pytest.mark.parametrize("path", ["/web", "/web/"])
def test_the_page_names_the_routes_and_the_size_of_the_set(path: str) -> None:
    generator = GeneratorRef(name="hand", version="1", seed=0)
    task = Task(task_id="a", generator=generator, problem_statement="Do it.", patch=SECRET, split="<b>")
    answer = TestClient(create_app(TaskSet([task]))).get(path)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert "<code>WS /ws</code>" in answer.text and "<code>GET /tasks</code>" in answer.text
    assert "1 tasks in the split &lt;b&gt;" in answer.text and SECRET not in answer.text


def test_the_page_says_when_there_is_no_task() -> None:
    assert "No tasks." in TestClient(create_app()).get("/web").text
