"""The generator ``bug_llm``: a scripted endpoint answers, and only usable answers become exercises."""

from __future__ import annotations

import pytest
from helpers.scripted_endpoint import fail, say, serving

from etude.errors import EndpointRefused, EndpointUnavailable, NotApplicable
from etude.generators import GENERATORS
from etude.generators.model_endpoint import ModelEndpoint

SOURCE = '''
import functools


class Shelf:
    @functools.cache
    def free(self, most):
        """Return how many books still fit."""
        used = len(self.books)  # all sizes
        if used > most:
            return 0
        return most - used


def short():
    return 1
'''
RIGHT = SOURCE[SOURCE.index("    def free") : SOURCE.index("\n\ndef short")].replace("\n    ", "\n").strip()
WRONG = RIGHT.replace("used > most", "used >= most").replace("most - used", "most - used - 1")


def proposals(snapshot, url, seed=0):
    maker = GENERATORS.load("bug_llm")()
    maker.endpoint = ModelEndpoint(url, "m", "ETUDE_TEST_KEY")
    return list(maker.candidates(snapshot, seed, maker.knobs()))


def answered(snapshot, text):
    with serving(lambda number, body: say(text)) as endpoint:
        [candidate] = proposals(snapshot, endpoint.url)
    return candidate, endpoint


def test_the_function_of_the_answer_takes_the_place_of_the_real_one(snapshot_of):
    candidate, endpoint = answered(snapshot_of(SOURCE), f"Here it is:\n```python\n{WRONG}\n```\nEnjoy.")
    changed = SOURCE.lstrip("\n").replace("used > most", "used >= most").replace("most - used", "most - used - 1")
    assert candidate.exercise == {"module.py": changed.encode()} and candidate.blocked is None
    assert candidate.generator.knobs["model"] == "m" and "http" not in str(candidate.generator)
    [request] = endpoint.requests
    assert request["model"] == "m" and RIGHT in request["messages"][1]["content"]
    assert "short" not in request["messages"][1]["content"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("I cannot do that.", "not one function"),
        (f"```python\n{RIGHT}\n```", "does not change what the function does"),
        (WRONG.replace("most)", "most, least)"), "name or the parameters"),
        (WRONG.replace("still fit", "fit"), "changes the docstring"),
        (WRONG.replace("return 0", "return 0  # wrong"), "adds a comment: # wrong"),
        (WRONG + "\n\n\ndef other():\n    return 1\n", "not one function"),
    ],
)
def test_an_answer_that_cannot_be_used_blocks_the_candidate(snapshot_of, answer, problem):
    candidate, _ = answered(snapshot_of(SOURCE), answer)
    assert candidate.blocked.reason == "llm_answer" and problem in candidate.blocked.detail


def test_without_an_endpoint_one_line_names_the_remedy(snapshot_of, propose):
    with pytest.raises(NotApplicable, match="^bug_llm asks a language model; name its endpoint with --llm URL.*$"):
        propose(snapshot_of(SOURCE), "bug_llm")


def test_a_refusal_ends_the_generator(snapshot_of):
    with serving(lambda number, body: fail(401)) as endpoint, pytest.raises(EndpointRefused):
        proposals(snapshot_of(SOURCE), endpoint.url)
    with pytest.raises(EndpointUnavailable):
        proposals(snapshot_of(SOURCE), "http://127.0.0.1:9/v1")


def test_the_order_of_functions_depends_on_the_seed(snapshot_of):
    source = "".join(SOURCE.replace("Shelf", f"Shelf{number}").replace("free", f"free{number}") for number in range(5))
    orders = []
    for seed in (0, 0, 1):
        with serving(lambda number, body: say("no")) as endpoint:
            assert len({item.entity for item in proposals(snapshot_of(source), endpoint.url, seed)}) == 5
        orders.append([request["messages"][1]["content"] for request in endpoint.requests])
    assert orders[0] == orders[1] != orders[2]
