"""The whole validation of each generator of mistakes on a small package with code of every kind."""

from __future__ import annotations

import pytest
from helpers.scripted_endpoint import say, serving

from etude.generators.generate import generate
from etude.generators.model_endpoint import ModelEndpoint
from etude.models import Task

PYPROJECT = """
[project]
name = "kiosk"
version = "1.0"
license = "MIT"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
py-modules = ["kiosk"]
"""
KIOSK = '''
"""Baskets of a kiosk, with prices in cents."""


class Empty(LookupError):
    """Raised when a basket has nothing in it."""


class Item:
    """Something to buy."""

    def __init__(self, name, cents):
        self.name = name
        self.cents = cents

    def __eq__(self, other):
        if not isinstance(other, Item):
            return NotImplemented
        return self.name == other.name and self.cents == other.cents

    def __lt__(self, other):
        return self.cents < other.cents


class Basket:
    """Items in the order in which they were put."""

    def __init__(self, items=None):
        if items is None:
            items = []
        self.items = list(items)

    def put(self, item, place=0):
        """Put an item at a place and return the number of items."""
        if place < 0:
            raise ValueError("no such place")
        self.items.insert(place, item)
        return len(self.items)

    def total(self, percent=0):
        """Return the price of all items with a discount."""
        price = 0
        for item in self.items:
            price += item.cents
        return price - price * percent // 100

    def cheapest(self):
        """Return the cheapest item."""
        try:
            return min(self.items)
        except ValueError:
            raise Empty("nothing to buy") from None


class Gift(Basket):
    """A basket with a ribbon."""

    def total(self, percent=0):
        """Return the price with the ribbon, which has no discount."""
        return super().total(percent) + 100


def label(name, width, mark):
    """Return a name between marks."""
    text = name.strip()
    if not text:
        return mark * width
    return text.center(width, mark)


def sold(lock, stock, name):
    """Take one piece from the stock and return how many are left."""
    with lock:
        stock[name] -= 1
    return stock[name]
'''
TESTS = """
import pytest

from kiosk import Basket, Empty, Gift, Item, label, sold

TEA, BUN = Item("tea", 150), Item("bun", 90)


class Lock:
    uses = 0

    def __enter__(self):
        self.uses += 1

    def __exit__(self, *error):
        return None


def test_equal_items():
    assert Item("tea", 150) == TEA and Item("tea", 90) != TEA and Item("pie", 150) != TEA


def test_other_types_are_not_equal():
    assert TEA.__eq__("tea") is NotImplemented


def test_order_by_price():
    assert BUN < TEA and not TEA < BUN


def test_put_at_a_place():
    basket = Basket([TEA])
    assert basket.put(BUN, 1) == 2 and basket.items == [TEA, BUN]


def test_put_first():
    first, second = Basket(), Basket()
    assert first.put(BUN) == 1 and first.put(TEA) == 2 and first.items == [TEA, BUN]
    assert second.items == []


def test_put_refuses_negative_places():
    with pytest.raises(ValueError):
        Basket().put(TEA, -1)


def test_a_basket_has_its_own_items():
    mine = [TEA]
    Basket(mine).put(BUN)
    assert mine == [TEA]


def test_total():
    assert Basket([TEA, BUN]).total() == 240 and Basket([TEA, BUN]).total(10) == 216


def test_gift_total():
    assert Gift([TEA, TEA, BUN]).total(50) == 295


def test_cheapest():
    assert Basket([TEA, BUN]).cheapest() is BUN


def test_cheapest_of_nothing():
    with pytest.raises(Empty):
        Basket().cheapest()


def test_label():
    assert label(" tea ", 7, "*") == "**tea**"


def test_empty_label():
    assert label(" ", 3, "-") == "---"


def test_label_without_room():
    assert label("tea", 1, "*") == "tea"


def test_sold():
    lock, stock = Lock(), {"tea": 2, "bun": 1}
    assert sold(lock, stock, "tea") == 1 and stock["bun"] == 1 and lock.uses == 1


def test_sold_out():
    assert sold(Lock(), {"tea": 1}, "tea") == 0


@pytest.mark.parametrize("number", range(6))
def test_names(number):
    assert Item(str(number), 1).name == str(number)
"""


@pytest.fixture(scope="module")
def kiosk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source") / "kiosk"
    folder.joinpath("tests").mkdir(parents=True)
    for path, text in (("pyproject.toml", PYPROJECT), ("kiosk.py", KIOSK), ("tests/test_kiosk.py", TESTS)):
        folder.joinpath(path).write_text(text.lstrip("\n"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bug_arithmetic",
        "bug_control_flow",
        "bug_removed_statement",
        "bug_call",
        "bug_exception",
        "bug_class",
        "bug_shared_state",
        "bug_protocol",
        "bug_concurrency",
        "bug_masking",
    ],
)
def test_a_candidate_becomes_a_task_whose_id_does_not_name_the_place(name, kiosk, tmp_path):
    report = generate([str(kiosk)], generators=[name], count=2, seed=3, out=tmp_path / "out", jobs=1)
    assert report.tasks >= 1, report.rejected
    for line in (tmp_path / "out" / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        assert task.FAIL_TO_PASS and task.PASS_TO_PASS and task.generator.name == name
        assert not any(word in task.task_id.split(".")[-1] for word in ("Basket", "Item", "total", "put", "label"))


@pytest.mark.slow
def test_an_answer_of_a_model_becomes_a_task_and_is_not_asked_for_again(kiosk, tmp_path):
    def script(number, body):
        return say(body["messages"][1]["content"].partition("\n\n")[2].replace("return ", "return not ", 1))

    rows = []
    with serving(script) as server:
        endpoint = ModelEndpoint(server.url, "m")
        for _ in range(2):
            report = generate(
                [str(kiosk)], generators=["bug_llm"], count=1, seed=0, out=tmp_path / "out", endpoint=endpoint
            )
            assert (report.candidates, report.tasks) == (1, 1), report.rejected
            rows.append((tmp_path / "out" / "tasks.jsonl").read_bytes())
    assert len(server.requests) == 1 and rows[0] == rows[1]
    task = Task.model_validate_json(rows[0].splitlines()[0])
    assert task.generator.knobs["model"] == "m" and server.url not in rows[0].decode()
