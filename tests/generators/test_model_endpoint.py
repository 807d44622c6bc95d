"""Generators that ask a language model: who gets the endpoint, and that no question is asked twice."""

from __future__ import annotations

import pytest
from helpers.paths import DATA

from etude.errors import EndpointRefused, GeneratorError, NotApplicable
from etude.generators import GENERATORS
from etude.generators.generate import generate
from etude.generators.library.mutation.bug_operator import Knobs
from etude.generators.model_endpoint import AsksModel, ModelEndpoint

QUESTION = [{"role": "user", "content": "Which part?"}]


class Asking(AsksModel):
    """Ask the model and propose nothing."""

    name, version, knobs = "asking", "1", Knobs
    answers: list[str] = []

    def candidates(self, snapshot, seed, knobs):
        self.answers.append(self.required_endpoint().ask(QUESTION))
        return iter(())


@pytest.fixture
def asking(monkeypatch):
    """Return the list of answers that the generator ``asking`` got."""
    monkeypatch.setattr(Asking, "answers", [])
    load = type(GENERATORS).load
    monkeypatch.setattr(type(GENERATORS), "load", lambda self, name: Asking if name == "asking" else load(self, name))
    return Asking.answers


def run(out, endpoint=None):
    with pytest.raises(GeneratorError, match="nothing to propose"):
        generate([str(DATA / "cellar")], generators=["asking"], count=1, seed=0, out=out, endpoint=endpoint)


def test_a_recorded_answer_is_not_asked_for_again(endpoints, tmp_path, asking):
    with endpoints.serving(lambda number, body: endpoints.say(f"answer {number}")) as server:
        endpoint = ModelEndpoint(server.url, "small")
        run(tmp_path, endpoint)
        run(tmp_path, endpoint)
        run(tmp_path / "elsewhere", endpoint)
        assert [request["model"] for request in server.requests] == ["small", "small"]
    assert asking == ["answer 0", "answer 0", "answer 1"]


def test_a_generator_says_what_to_do_when_there_is_no_endpoint(tmp_path, asking):
    with pytest.raises(NotApplicable, match="asking asks a language model; name its endpoint with --llm URL --model"):
        generate([str(DATA / "cellar")], generators=["asking"], count=1, seed=0, out=tmp_path)


def test_an_endpoint_elsewhere_needs_a_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EndpointRefused, match="OPENAI_API_KEY is not set"):
        ModelEndpoint("https://llm.example.org/v1", "small").ask(QUESTION)
