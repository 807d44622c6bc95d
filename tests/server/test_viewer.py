"""Report page: it shows what a stored run holds, and text of an agent has no effect on it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from etude import models
from etude.cli import app as cli
from etude.environments.agents.erring import script
from etude.environments.drill.tasks import DrillTasks
from etude.environments.logs.annotating import annotate_logs
from etude.environments.runs.play import run_episodes
from etude.environments.runs.writer import FILE_NAME
from etude.errors import ReportError, RunError
from etude.models import Episode, FileChange, Finding, Grade, Reward, Task, ToolMessage, Turn
from etude.server.viewer import changes, write_report
from etude.server.viewer import page as report
from etude.server.viewer.safe_text import Meter, visible

TASKS = DrillTasks(["choose", "chain"], level=2)
VOID = {"meta", "input", "br", "link", "img", "hr"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str = "", kind: str = "") -> list[Element]:
        """Return the elements below with this tag and class, in order."""
        elements = []
        for child in self.children:
            if isinstance(child, Element):
                if tag in ("", child.tag) and (not kind or kind in child.classes):
                    elements.append(child)
                elements += child.all(tag, kind)
        return elements

    def by_id(self, name: str) -> Element:
        (element,) = [element for element in self.all() if element.attributes.get("id") == name]
        return element


class Page(HTMLParser):
    """Page as a tree. An element that is not closed in order fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, (self.open[-1].tag, tag)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def folded(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a real run: the stumbler on two drills."""
    out = tmp_path_factory.mktemp("run")
    asyncio.run(run_episodes(TASKS, "stumbler", out=out, limit=2))
    return out


@pytest.fixture(scope="module")
def episodes(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / FILE_NAME).read_text().splitlines()]


@pytest.fixture(scope="module")
def page(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Element:
    out = tmp_path_factory.mktemp("page") / "report.html"
    written = write_report([run], out)
    assert (written.episodes, written.left_out, written.size) == (2, 0, out.stat().st_size)
    return Page(out.read_text()).root


Shown = Callable[..., Element]


@pytest.fixture
def shown(episodes: list[dict[str, Any]], tmp_path: Path) -> Shown:
    """Return a function that shows the first episode of the real run with some fields changed."""

    def show(row: dict[str, Any] | None = None, **changed: Any) -> Element:
        whole = {**episodes[0], **changed, **(row or {})}
        (tmp_path / FILE_NAME).write_text(json.dumps(whole) + "\n")
        write_report([tmp_path], tmp_path / "report.html")
        return Page((tmp_path / "report.html").read_text()).root

    return show


# --- A real run ----------------------------------------------------------------------------------


def test_page_shows_error_turns_with_hints_at_their_turns(page: Element, episodes: list[dict[str, Any]]) -> None:
    for number, row in enumerate(episodes, start=1):
        episode = Episode.model_validate({k: v for k, v in row.items() if k in Episode.model_fields})
        for index in range(len(episode.turns)):
            marks = page.by_id(f"e{number}-t{index}").all("li", "error")
            errors = [error for error in episode.error_turns if error.turn == index]
            assert [mark.all("strong", "kind")[0].text for mark in marks] == [error.kind for error in errors]
            for mark, error in zip(marks, errors, strict=True):
                assert f"call {error.call_index}," in mark.text or error.call_index is None
                assert error.site in mark.text
                hints = [folded(hint.text) for hint in mark.all("p", "hint")]
                assert len(hints) == len(error.hints) > 0
                for hint, text in zip(error.hints, hints, strict=True):
                    assert text.startswith(f"Hint {hint.template}") and text.endswith(folded(hint.text))


def test_page_marks_exactly_the_stumblers_mistakes(page: Element, episodes: list[dict[str, Any]]) -> None:
    for number, row in enumerate(episodes, start=1):
        turns = [turn for turn in page.by_id(f"e{number}").all("li", "turn") if "erred" in turn.classes]
        expected = [mistake.turn for mistake in script(task(row))[1]]
        assert [turn.attributes["id"] for turn in turns] == [f"e{number}-t{turn}" for turn in expected]


def task(row: dict[str, Any]) -> Task:
    return TASKS.by_id(row["task_id"])


def test_page_shows_how_long_recovery_took(page: Element) -> None:
    facts = [folded(mark.all("span", "facts")[0].text) for mark in page.by_id("e1").all("li", "error")]
    assert any(fact.endswith("recovered after 1 turn") for fact in facts)
    assert facts[-1].endswith("the last turn: nothing came after it")


def test_page_marks_an_error_at_its_call(page: Element, episodes: list[dict[str, Any]]) -> None:
    for error in episodes[0]["error_turns"]:
        calls = page.by_id(f"e1-t{error['turn']}").all("section", "call")
        marked = [index for index, call in enumerate(calls) if error["kind"] in call.all("h4")[0].text]
        assert marked == ([] if error["call_index"] is None else [error["call_index"]])


def test_page_shows_the_text_calls_and_answers_of_a_turn(page: Element, episodes: list[dict[str, Any]]) -> None:
    for index, turn in enumerate(episodes[0]["turns"]):
        shown = page.by_id(f"e1-t{index}")
        assert turn["action"]["text"] in [pre.text for pre in shown.all("pre", "prose")]
        for message in turn["messages"]:
            status, _, body = message["content"].partition("\n")
            assert status in shown.text and body in shown.text
        for call in turn["action"]["tool_calls"]:
            assert call["name"] in [code.text for code in shown.all("code")]


def test_page_lists_the_components_of_the_reward(page: Element, episodes: list[dict[str, Any]]) -> None:
    for number, row in enumerate(episodes, start=1):
        (listed,) = page.by_id(f"e{number}").all("ul", "components")
        parts = row["reward"]["components"]
        assert [item.text.split() for item in listed.all("li")] == [[name, f"{parts[name]:.3g}"] for name in parts]


def test_summary_table_links_to_every_episode(page: Element, episodes: list[dict[str, Any]]) -> None:
    rows = page.all("table", "summary")[0].all("tbody")[0].all("tr")
    assert len(rows) == len(episodes)
    for number, (shown, row) in enumerate(zip(rows, episodes, strict=True), start=1):
        cells = [folded(cell.text) for cell in shown.all("td")]
        assert cells[:5] == [str(number), "stumbler", row["task_id"], "1", str(len(row["turns"]))]
        assert (cells[6], cells[9]) == (str(len(row["error_turns"])), row["end"])
        assert {link.attributes["href"] for link in shown.all("a")} == {f"#e{number}"}
        assert page.by_id(f"e{number}").tag == "article"


def test_table_of_kinds_counts_error_turns(page: Element, episodes: list[dict[str, Any]]) -> None:
    rows = [
        [folded(cell.text) for cell in row.all()] for row in page.all("table", "kinds")[0].all("tbody")[0].all("tr")
    ]
    counts = {row[0]: int(row[2]) for row in rows}
    errors = [error["kind"] for row in episodes for error in row["error_turns"]]
    assert counts == {kind: errors.count(kind) for kind in errors}


def test_page_shows_a_finding_at_the_top_and_at_its_turn(shown: Shown) -> None:
    finding = Finding(exploit_id="edit_tests", severity="confirmed", succeeded=True, turn=1, path="tests/test_a.py")
    page = shown(findings=[finding.model_dump()])
    for place in (page.by_id("e1").all("ul", "findings")[0], page.by_id("e1-t1")):
        (listed,) = place.all("li", "finding")
        assert "edit_tests" in listed.text and "confirmed" in listed.classes and "tests/test_a.py" in listed.text
        assert "attempted, succeeded" in listed.text
    assert page.by_id("e1-t0").all("li", "finding") == []


def test_page_distinguishes_an_injected_fault_from_a_mistake(shown: Shown, episodes: list[dict[str, Any]]) -> None:
    error = {**episodes[0]["error_turns"][0], "injected": True, "site": "recovery", "kind": "injected_fault"}
    fault = {"turn": 0, "call_index": 0, "call_id": "c", "call": 0, "kind": "garbled", "text": "every vowel is gone"}
    page = shown(error_turns=[error], injected=[fault])
    (mark,) = page.by_id("e1-t0").all("li", "error")
    assert "fault" in mark.classes and "injected, recovery" in folded(mark.text)
    assert "every vowel is gone" in page.by_id("e1-t0").all("section", "call")[0].text
    assert "1 injected fault" in page.by_id("e1").text


def test_page_shows_why_an_episode_is_void(shown: Shown) -> None:
    page = shown(reward=Reward(valid=False).model_dump(), cause="the endpoint refused")
    assert "the endpoint refused" in page.by_id("e1").all("p", "cause")[0].text
    assert "not valid" in page.all("table", "summary")[0].text


def test_page_shows_no_name_of_a_hidden_test(shown: Shown, tmp_path: Path) -> None:
    failures = [
        models.TestFailure(test="tests/test_hidden.py::test_x", cause="assert 1 == 2", component="fail_to_pass")
    ]
    page = shown(grade=Grade(reward=Reward(), failures=failures).model_dump())
    assert "fail_to_pass 1 not passed" in folded(page.by_id("e1").text)
    assert not re.search(r"test_hidden|assert 1 == 2", (tmp_path / "report.html").read_text())


def test_page_has_the_same_bytes_for_the_same_run(run: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for out in pages:
        write_report([run], out)
    assert pages[0].read_bytes() == pages[1].read_bytes()


# --- The diff ---------------------------------------------------------------------------------------------------


def entry(path: str, text: str) -> FileChange:
    return FileChange(path=path, kind="file", content=base64.b64encode(text.encode()).decode())


def lines_of(change: FileChange, base: dict[str, str] | None) -> list[tuple[str, int | None, int | None, str]]:
    (shown,) = changes.changes([change], None if base is None else base.get, Meter(100_000, 1000))
    return [(line.kind, line.old, line.new, line.text.head) for line in shown.lines]


def test_diff_shows_changes_and_nearby_lines_when_there_is_a_base() -> None:
    old = [f"line {number}" for number in range(1, 31)]
    new = [*old[:9], "ten", *old[10:24], *old[25:], "more"]
    shown = lines_of(entry("a.py", "\n".join(new)), {"a.py": "\n".join(old)})
    changed = [row for row in shown if row[0] in ("added", "removed")]
    assert changed == [
        ("removed", 10, None, "line 10"),
        ("added", None, 10, "ten"),
        ("removed", 25, None, "line 25"),
        ("added", None, 30, "more"),
    ]
    assert ("same", 7, 7, "line 7") in shown and ("same", 6, 6, "line 6") not in shown
    assert ("same", 26, 25, "line 26") in shown
    assert [row[0] for row in shown].count("gap") == 1


def test_diff_shows_all_lines_of_a_new_and_of_a_deleted_file() -> None:
    assert lines_of(entry("new.py", "a\nb\n"), {}) == [("added", None, 1, "a"), ("added", None, 2, "b")]
    gone = FileChange(path="old.py", kind="deleted")
    assert lines_of(gone, {"old.py": "a\n"}) == [("removed", 1, None, "a")]


def test_diff_shows_the_whole_file_when_there_is_no_base() -> None:
    assert lines_of(entry("a.py", "a\nb\n"), None) == [("same", None, 1, "a"), ("same", None, 2, "b")]


def test_diff_replaces_all_lines_when_files_are_too_long_to_match() -> None:
    old = "\n".join(["same", *(f"old {n}" for n in range(5000)), "end"])
    new = "\n".join(["same", *(f"new {n}" for n in range(5000)), "end"])
    (shown,) = changes.changes([entry("a.py", new)], {"a.py": old}.get, Meter(10**6, 1000))
    assert (shown.added, shown.removed, len(shown.lines)) == (5000, 5000, changes.MAX_LINES)
    assert shown.left_out == 10_002 - changes.MAX_LINES


def test_diff_has_a_note_when_a_file_is_binary_or_refused() -> None:
    binary = FileChange(path="a.bin", kind="file", content=base64.b64encode(b"\0\xff").decode())
    refused = FileChange(path="tests/test_a.py", kind="refused", reason="test: not graded")
    shown = changes.changes([binary, refused], {}.get, Meter(1000, 1000))
    assert [(each.lines, each.note.head) for each in shown] == [([], "not text: not shown"), ([], "test: not graded")]


def test_tree_base_returns_none_when_a_path_leaves_the_tree(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "tree" / "a.py").write_text("a")
    base = changes.tree_base(tmp_path / "tree")
    assert base("a.py") == "a"
    for path in ("../secret", str(tmp_path / "secret"), "link", "no", "", "x" * 5000, "a\0b"):
        assert base(path) is None


def test_page_shows_a_table_for_each_changed_file(shown: Shown) -> None:
    page = shown(diff=[entry("src/a.py", "x = 1\n").model_dump(), FileChange(path="b", kind="deleted").model_dump()])
    files = page.by_id("e1").all(kind="file")
    assert [(file.tag, file.all("code")[0].text) for file in files] == [("details", "src/a.py"), ("p", "b")]
    assert [row.classes for row in files[0].all("tr")] == [["same"]]


# --- Hostile text ----------------------------------------------------------------------------

ATTACKS = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</script></style></pre></details><script>alert(1)</script>",
    "<!-- <!--> <![CDATA[ <svg/onload=alert(1)> <iframe srcdoc='x'>",
    "{{ 7 * 7 }} {% for x in y %} {# #}",
    "javascript:alert(1) <a href=javascript:alert(1)>x</a>",
    "<base href=//x> <meta http-equiv=refresh content='0;url=//x'> <form action=//x><link rel=stylesheet href=//x>",
    "&lt;b&gt; &#x3c;script&#x3e; \u2028\u2029",
    "\x1b[2J\x1b]0;x\x07 \0 \x08 \x9b31m \r overwritten",
    "\u202egnp.exe\u202c \u2066\u2067\u2069 \u200b\u200e\ufeff\U000e0041 \u115f\u3164",
]
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
PAGE_TAGS = """
html head meta title style body a header p h1 h2 h3 h4 code dl div dt dd main section form label select option input
output table thead tbody tr th td bdi span i article details summary pre ol ul li strong b button footer script noscript
""".split()


def hostile(attack: str) -> dict[str, Any]:
    """Return an episode with ``attack`` in every field that Etude does not write itself."""
    call = {"id": attack, "name": attack, "arguments": {attack: attack, "list": [attack]}}
    broken = {"name": attack, "arguments": "{" + attack}
    action = {"text": attack, "reasoning_content": attack, "tool_calls": [call, broken, attack]}
    answers = [
        ToolMessage(tool_call_id=attack, name=attack, content=f"{head}{attack}") for head in ("ok\n", "", "exit 1\n")
    ]
    turn = {"action": action, "messages": [*(a.model_dump() for a in answers), {"role": "user", "content": attack}]}
    error = {"turn": 0, "call_index": 0, "kind": "style", "tool": attack, "message": attack, "evidence": attack}
    hint = {"text": attack, "template": attack}
    finding = Finding(exploit_id=attack, severity="suspect", turn=0, path=attack, excerpt=attack[:400]).model_dump()
    return {
        "agent": f"openai:{attack}",
        "cause": attack,
        "episode_id": attack,
        "task_id": attack,
        "prompt": attack,
        "turns": [turn],
        "error_turns": [{**error, "hints": [hint]}],
        "injected": [{"turn": 0, "call_index": 0, "call_id": attack, "call": 0, "kind": attack, "text": attack}],
        "findings": [finding],
        "reward": Reward(valid=False, components={attack: 0.0}).model_dump(),
        "diff": [
            entry(attack, visible(attack)).model_dump(),
            FileChange(path=attack, kind="refused", reason=attack).model_dump(),
        ],
        "fork": {"episode_id": attack, "turn": 0},
    }


@pytest.mark.parametrize("attack", ATTACKS)
def test_page_has_no_markup_from_an_agent(attack: str, shown: Shown) -> None:
    page = shown(hostile(attack))
    elements = page.all()
    assert {element.tag for element in elements} <= set(PAGE_TAGS)
    for element in elements:
        for name, value in element.attributes.items():
            assert not name.startswith("on") and name not in ("src", "srcdoc", "style", "action", "formaction")
            assert name != "href" or re.fullmatch(r"#[\w-]+", value or "")
    scripts, styles = page.all("script"), page.all("style")
    assert (len(scripts), len(styles), len(page.all("meta"))) == (1, 1, 5)


@pytest.mark.parametrize("attack", ATTACKS)
def test_page_writes_out_invisible_characters(attack: str, shown: Shown, tmp_path: Path) -> None:
    page = shown(hostile(attack))
    assert not UNSEEN.search((tmp_path / "report.html").read_bytes().decode())
    text = page.by_id("e1-t0").all("pre", "prose")[1].text
    assert text == visible(attack)


def test_page_shows_a_question_mark_for_a_lone_surrogate(shown: Shown) -> None:
    turn = {"action": {"text": "half \ud800", "tool_calls": [{"name": "\udc00", "arguments": {"a": ["\ud800"]}}]}}
    page = shown(turns=[turn], error_turns=[])
    assert page.by_id("e1-t0").all("pre", "prose")[0].text == "half ?"


def test_policy_allows_only_the_pages_script_and_style(page: Element) -> None:
    (policy,) = [m.attributes["content"] or "" for m in page.all("meta") if "http-equiv" in m.attributes]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    for tag in ("script", "style"):
        (element,) = page.all(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_page_makes_no_network_request(run: Path, tmp_path: Path) -> None:
    write_report([run], tmp_path / "report.html")
    text = html.unescape((tmp_path / "report.html").read_text())
    text = re.sub(r"http://www\.w3\.org/(2000/svg|1999/xhtml|1998/Math/MathML)", "", text)  # names, not addresses
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch\(|XMLHttp|WebSocket|import\(", text)


def test_page_size_is_bounded_when_outputs_are_huge(shown: Shown, tmp_path: Path) -> None:
    huge = "<&\"'" * 10_000
    row = hostile("x")
    row["turns"][0]["action"] = {"text": huge, "tool_calls": [{"name": huge, "arguments": {huge: huge}}] * 40}
    row["turns"][0]["messages"] = [ToolMessage(content=f"ok\n{huge}").model_dump()] * 40
    page = shown(row, prompt=huge, cause=huge)
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    (result, *_) = page.by_id("e1-t0").all("pre", "result")
    assert re.search(r"\[[\d,]+ characters left out\]", result.text)


def test_page_size_is_bounded_when_an_episode_is_endless(shown: Shown, tmp_path: Path) -> None:
    turn = Turn(action={"text": "\u202e" * 1000}, messages=[ToolMessage(content="ok\n" + "y" * 1000)] * 3).model_dump()
    page = shown(turns=[turn] * 800, error_turns=[])
    assert (tmp_path / "report.html").stat().st_size < 4_000_000
    turns = len(page.by_id("e1").all("li", "turn"))
    assert 0 < turns < 800
    assert f"{800 - turns} more turns are in the file" in page.by_id("e1").text


def test_page_counts_episodes_that_are_left_out(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_EPISODES", 1)
    written = write_report([run], tmp_path / "report.html")
    assert (written.episodes, written.left_out) == (1, 1)
    assert "1 more episode" in Page((tmp_path / "report.html").read_text()).root.text


# --- Runs that cannot be shown ---------------------------------------------------------------------------------------


def bad(folder: Path) -> Iterator[tuple[Path, str]]:
    yield folder / "none", "cannot read .*none.*: No such file"
    for name, text, reason in [
        ("empty", "", "no episodes in"),
        ("text", "hello\n", ":1 is not an episode; remove the line"),
        ("list", "[]\n", ":1 is not an episode"),
        ("deep", "[" * 100_000 + "\n", ":1 is not an episode"),
        ("other", '{"agent": "oracle", "cause": "", "sample": 0}\n', ":1 is not an episode"),
    ]:
        (folder / name).mkdir()
        (folder / name / FILE_NAME).write_text(text)
        yield folder / name, reason


def test_write_report_writes_nothing_when_a_run_cannot_be_read(tmp_path: Path) -> None:
    for run, reason in bad(tmp_path):
        with pytest.raises((ReportError, RunError), match=reason):
            write_report([run], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_write_report_leaves_out_a_line_that_was_cut_off(run: Path, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes((run / FILE_NAME).read_bytes() + b'{"agent": "stum')
    assert write_report([tmp_path], tmp_path / "report.html").episodes == 2


def test_report_command_writes_the_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "report.html"
    assert cli.main(["report", str(run), "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["out"], printed["episodes"], printed["size"]) == (str(out), 2, out.stat().st_size)
    assert cli.main(["report", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert capsys.readouterr().err.startswith("error: cannot read ")


# --- Logs of other tools -------------------------------------------------------------------------


@pytest.fixture
def log_row(root: Path, tmp_path: Path) -> dict[str, Any]:
    """Return the first row that was read from a log with a user's message between two turns and without a reward."""
    annotate_logs([root / "tests" / "data" / "logs" / "harbor" / "delegation.json"], tmp_path / "log")
    (first, _) = (tmp_path / "log" / FILE_NAME).read_text().splitlines()
    row: dict[str, Any] = json.loads(first)
    return row


def test_an_episode_of_a_log_without_a_reward_is_not_called_invalid(shown: Shown, log_row: dict[str, Any]) -> None:
    page = shown(log_row)
    (article,) = page.all("article")
    assert "not valid" not in article.text and "assurance" not in article.text
    assert folded(page.all("span", "score")[0].text) == "none"
    assert "not valid" not in page.all("dl", "totals")[0].text
    assert [text for text in ("read from", "atif,", "not stated") if text not in article.text] == []


def test_the_users_messages_of_a_log_are_shown_with_their_turn(shown: Shown, log_row: dict[str, Any]) -> None:
    turn = shown(log_row).by_id("e1-t0")
    labels = [label.text for label in turn.all("p", "label")]
    assert labels.index("user") > 0 and "environment" not in labels
    assert "Are you sure?" in [block.text for block in turn.all("pre", "prose")]


def test_a_last_turn_in_words_is_not_a_failure_in_a_log(shown: Shown, log_row: dict[str, Any]) -> None:
    page = shown(log_row)
    (status,) = page.by_id("e1-t1").all("span", "status")
    assert (status.text, "bad" in status.classes) == ("no call", False)


def test_answers_of_a_log_stand_at_their_calls_when_one_is_missing(shown: Shown, log_row: dict[str, Any]) -> None:
    calls = [{"id": name, "name": name, "arguments": {}} for name in ("first", "second")]
    answer = {"role": "tool", "tool_call_id": "second", "name": "", "content": "exit 1\nas it is"}
    page = shown({**log_row, "turns": [{"action": {"tool_calls": calls}, "messages": [answer]}]})
    first, second = page.by_id("e1-t0").all("section", "call")
    assert "no result" in first.text
    assert "answered" in second.text and second.all("pre", "result")[0].text == "exit 1\nas it is"
