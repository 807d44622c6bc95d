"""Code in which a name always has one value: it behaves as before for that value, and what cannot run is gone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from etude.errors import Rejected
from etude.generators.library.deletion.partial.docstring_entries import without_parameter
from etude.generators.library.deletion.partial.parameters import parameters, without_handling, without_parameter_itself
from etude.generators.library.deletion.removal.source_file import SourceFile


def body(source, default="None", before=""):
    """Return the body of ``f`` in which the parameter ``key`` always has its default."""
    text = f"{before}def f(a, key={default}):\n" + textwrap.indent(textwrap.dedent(source).strip("\n"), "    ") + "\n"
    file = SourceFile("m.py", text.encode(), "m")
    parameter = next(item for item in parameters(file) if item.name == "key")
    after = without_handling(file, parameter).decode()
    return textwrap.dedent(after.split(":\n", 1)[1]).strip("\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if key is not None:\n    a = key(a)\nreturn a", "return a"),
        ("if key is None:\n    # Plain.\n    return a\nb = key(a)\nreturn b", "# Plain.\nreturn a"),
        ("if key is None: return a\nreturn key(a)", "return a"),
        (
            "if a:\n    b = 1\nelif key:\n    b = 2\nelse:\n    b = 3\nreturn b",
            "if a:\n    b = 1\nelse:\n    b = 3\nreturn b",
        ),
        ("if key:\n    b = 2\nelif a:\n    b = 1\nreturn b", "if a:\n    b = 1\nreturn b"),
        (
            "if a:\n    b = 1\nelif not key:\n    b = 2\nelse:\n    b = 3\nreturn b",
            "if a:\n    b = 1\nelse:\n    b = 2\nreturn b",
        ),
        ("if key:\n    b = 2\nelse:\n    b = '''x\n y'''\nreturn b", "b = '''x\n y'''\nreturn b"),
        ("return key(a) if key else a or None", "return a or None"),
        ("if a and key is None and a.b:\n    return 1", "if a and a.b:\n    return 1"),
        ("if a and key:\n    return 1\nreturn 2", "return 2"),
        ("return [x for x in a if x or key]", "return [x for x in a if x]"),
        ("key = key or len\nreturn key(a)", "key = len\nreturn key(a)"),
        ("if key is None:\n    key = len\nreturn key(a)", "key = len\nreturn key(a)"),
        ("return sorted(a, key=key)", "return sorted(a, key=None)"),
        ("while key:\n    a += 1\nassert key is None\nreturn a", "return a"),
        ("if isinstance(key, str):\n    return 1\nif callable(key):\n    return 2\nreturn 3", "return 3"),
        ("for x in a:\n    if key:\n        x()", "for x in a:\n    pass"),
    ],
)
def test_code_for_the_default_remains(before, after):
    assert body(before) == after


@pytest.mark.parametrize(
    ("default", "before", "after"),
    [
        ("()", "for x in key:\n    a += x\nreturn a", "return a"),
        ("True", "b = not key\nreturn b", "b = False\nreturn b"),
        ("-1", "return a[key] ** key", "return a[-1] ** (-1)"),
        ("'x'", "if key == 'x':\n    return a\nelif key == 'y':\n    return 1", "return a"),
        ("'x'", "return key.join(a)", "return 'x'.join(a)"),
        ("1", "if key > 2 or a:\n    return key", "if a:\n    return 1"),
    ],
)
def test_constants_are_compared_and_written(default, before, after):
    assert body(before, default) == after


def test_a_name_as_default_is_equal_to_itself_alone():
    source = "if key is MISSING:\n    return a\nreturn key"
    assert body(source, "MISSING", "MISSING = object()\n").endswith("return a")
    assert "if MISSING:" in body("if key:\n    return a\nreturn 1", "MISSING", "MISSING = object()\n")


@pytest.mark.parametrize(
    "source",
    [
        "if a:\n    key = 1\nreturn key",
        "for x in a:\n    key = x\nreturn key",
        "return f'{key}'",
        "return key.x",
        "return locals()",
        "return lambda key: key",
        "key += 1\nreturn key",
    ],
)
def test_a_function_is_refused_when_the_rewriting_would_not_be_exact(source):
    with pytest.raises(Rejected, match="v0_not_exact"):
        body(source)


def test_the_parameter_leaves_signature_and_docstring():
    entries = b"    :param a: that\n    :param key: how\n        it is done\n"
    text = b'def f(a, *, key=None, **more):\n    """Do it.\n\n' + entries + b'    """\n'
    file = SourceFile("m.py", text, "m")
    after, removed = without_parameter_itself("m.py", text, next(parameters(file)))
    assert after == b'def f(a, **more):\n    """Do it.\n\n    :param a: that\n    """\n'
    assert removed == [":param key: how\n    it is done"]
    ast.parse(after)


@pytest.mark.parametrize(
    ("text", "remaining", "removed"),
    [
        (
            "Args:\n    key (str): the key\n        of it\n    other: x\n",
            "Args:\n    other: x\n",
            ["key (str): the key\n    of it"],
        ),
        (
            "Parameters\n----------\nkey : str\n    The key.\nother : x\n",
            "Parameters\n----------\nother : x\n",
            ["key : str\n    The key."],
        ),
        ("Sort.\n\nWith *key*, sort by it.\n\nMore.", "Sort.\n\nMore.", ["With *key*, sort by it."]),
        ("Sort by *key*.\n\nA key is good.", "Sort by *key*.\n\nA key is good.", []),
        ("Sort.\n\n```\nsort(a, key=1)\n```\n\nMore.", "Sort.\n\n\nMore.", []),
    ],
)
def test_the_docstring_loses_what_describes_the_parameter(text, remaining, removed):
    assert without_parameter(text, "key") == (remaining, removed)
