"""Renaming: where names change in code and texts, and where they stay."""

from __future__ import annotations

import pytest

from etude.generators.python.source import Module, apply_edits
from etude.generators.twins.renamed.local_names import functions, local_edits
from etude.generators.twins.renamed.naming import new_name
from etude.generators.twins.renamed.renaming import Renaming
from etude.generators.twins.renamed.string_uses import string_uses

SOURCE = '''
SCALE = 2

class Meter:
    def measure(self, samples, unit: str = SCALE, *more, scale=None, **options):
        """Measure ``samples`` in a unit.

        :param samples: the samples
        """
        total = 0
        for number, sample in enumerate(samples):
            total += sample.total * SCALE
        print(f"{total} {samples!r:>{scale}}", sep=unit)
        def inner(value, total=total):
            nonlocal number
            number = value
            return [part for part in more if part.samples == samples]
        import json
        return inner, (lambda word: word + number), json
'''


def renamed(source: str, names: dict[str, str], parameters: dict[str, str]) -> str:
    content = source.encode()
    return apply_edits(content, local_edits(Module("m.py", content), names, parameters)).decode()


def test_variables_and_parameters_change_at_every_use_and_nowhere_else() -> None:
    text = renamed(SOURCE, {"number": "N", "sample": "S", "part": "P"}, {"samples": "X", "more": "M", "word": "W"})
    assert "def measure(self, X, unit: str = SCALE, *M, scale=None, **options):" in text
    assert "for N, S in enumerate(X):" in text and "total += S.total * SCALE" in text
    assert 'f"{total} {X!r:>{scale}}"' in text
    assert "nonlocal N" in text and "[P for P in M if P.samples == X]" in text and "(lambda W: W + N)" in text
    assert "Measure ``X`` in a unit." in text and ":param X: the samples" in text
    compile(text, "m.py", "exec")


def test_a_function_tells_variables_from_parameters_globals_and_imports() -> None:
    (function,) = functions(Module("m.py", SOURCE.encode()))
    assert function.variables == {"number", "sample", "part"}
    assert {"samples", "unit", "more", "scale", "options", "word", "value", "total"} == function.parameters
    assert {"samples", "unit", "more", "scale", "options"} == function.outer_parameters


@pytest.mark.parametrize("line", ["locals()", "eval('value')", "'{value}'.format_map(vars())"])
def test_a_function_is_left_alone_when_it_can_see_the_names_of_its_variables(line: str) -> None:
    assert functions(Module("m.py", f"def show(value):\n    return {line}\n".encode())) == []


def test_names_of_class_bodies_and_keywords_of_calls_stay() -> None:
    source = "def make(count):\n    class Box:\n        size = count\n    size = 1\n    return Box(size=size)\n"
    assert renamed(source, {"size": "Z"}, {"count": "C"}) == source.replace("count", "C")


RENAMING = Renaming(
    ("src/meters",), {"meters": "rulers", "Meter": "Ruler"}, ("py-meters", "rulers"), {}, {"unit": "mark"}
)


def test_paths_change_inside_the_package_alone() -> None:
    paths = ["src/meters/meters.py", "src/meters/**", "tests/meters/test_meters.py", "src/meters"]
    assert [RENAMING.path(path) for path in paths] == [
        "src/rulers/rulers.py",
        "src/rulers/**",
        "tests/meters/test_meters.py",
        "src/rulers",
    ]


def test_words_change_in_code_texts_and_documents() -> None:
    text = "from meters import Meter  # a Meter of py-meters, no Meters or my_Meter\n"
    changed = "from rulers import Ruler  # a Ruler of rulers, no Meters or my_Meter\n"
    assert RENAMING.content("tests/test_a.py", text.encode()) == changed.encode()
    assert RENAMING.content("README.md", text.encode()) == changed.encode()
    assert RENAMING.content("LICENSE", text.encode()) == text.encode()
    assert RENAMING.content("data.bin", b"\xff Meter") == b"\xff Meter"


def test_a_statement_shows_the_new_signature_and_its_parameters() -> None:
    text = "Write `Meter.read`:\n\n    def read(self, unit=None)\n\nIt reads in the given unit, `unit`.\n"
    assert RENAMING.statement(text) == (
        "Write `Ruler.read`:\n\n    def read(self, mark=None)\n\nIt reads in the given unit, `mark`.\n"
    )
    assert RENAMING.statement("The text `unit` is not a parameter here.") == "The text `unit` is not a parameter here."


def test_new_names_have_the_style_of_the_old_ones() -> None:
    names = {name: new_name(name, set(), "s") for name in ("cache_key", "_TTLBox", "MAX_SIZE", "x1", "get")}
    assert names["cache_key"] == "store_label" and names["get"] == "fetch" and names["MAX_SIZE"] == "MOST_EXTENT"
    assert names["_TTLBox"].startswith("_") and names["_TTLBox"][1].isupper() and "TTL" not in names["_TTLBox"]
    assert names["x1"].endswith("1") and len(names["x1"]) > 4
    again = new_name("get", {"fetch"}, "s")
    assert again not in ("get", "fetch") and again == new_name("get", {"fetch"}, "s")
    assert new_name("zzqx", set(), "s") == new_name("zzqx", set(), "s") != new_name("zzqx", set(), "t")


USES = '''
"""The Gauge class."""
__all__ = ["Gauge"]
Gauge = getattr(module, "Level")
text = "a Needle fell"
patch("meters.dial.Pointer")
name = getattr(self, "visit_" + kind)
f(speed=1)
def g(a: "Forward"): ...
'''


def test_texts_that_name_something_are_told_from_references() -> None:
    uses = string_uses({"m.py": USES.encode()}, [b"call f(depth=2)"])
    assert "Needle" in uses.words
    assert not {"Gauge", "Level", "Pointer", "Forward"} & uses.words
    assert uses.is_looked_up("visit_Name") and not uses.is_looked_up("Gauge")
    assert {"speed", "depth"} <= uses.keywords
