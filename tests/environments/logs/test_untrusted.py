"""Broken and hostile logs: one clear line for each mistake, and nothing in a log raises anything else."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.environments.logs import log_file
from etude.environments.logs.annotating import annotate_logs
from etude.environments.runs.reader import read_run
from etude.environments.runs.writer import FILE_NAME
from etude.errors import LogError, RunError, UnknownName

CHAT = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
SEEDS = range(4)
Write = Callable[..., Path]


def test_broken_lines_are_counted_with_their_places_when_others_are_read(annotate: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'{"messages": [}\n' + json.dumps({"messages": CHAT}).encode() + b'\n\n\xff\n{"messages": ')
    report, episodes = annotate(log)
    (summary,) = report.files
    assert (len(episodes), summary.skipped) == (1, 3)
    assert [problem.partition(" is")[0] for problem in summary.problems] == [f"{log}:{line}" for line in (1, 4, 5)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "has no known format"),
        (b"not json\n", "log:1 is not JSON"),
        (b"[" * 100_000, "log:1 is not JSON (it is nested too deeply)"),
        (b'{"a": 1}\n', "has no known format"),
        (b"PK\x03\x04 damaged", "is a damaged zip archive"),
        (b'[{"role": "user", "content": "x"}]', "has no known format"),
        (b'{"a": ' + b"9" * 5000 + b"}", "log:1 is not JSON (a number is too long)"),
    ],
)
def test_a_file_that_is_no_log_is_one_error_and_leaves_nothing(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(LogError) as raised:
        annotate_logs([tmp_path / "log"], tmp_path / "runs" / "out")
    assert expected in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "runs").exists()


def test_an_archive_whose_member_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.environments.logs.archive.MAX_MEMBER", 1000)
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1.json", b" " * 1001)
    with pytest.raises(LogError, match=r"samples/1\.json holds more than"):
        annotate_logs([tmp_path / "log.eval"], tmp_path / "out", format_name="inspect")


def test_a_line_that_is_too_long_is_skipped(annotate: Any, written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_LINE", 200)
    row = {"messages": CHAT}
    report, episodes = annotate(written("log.jsonl", row, {"messages": CHAT, "x": "y" * 500}, row))
    assert len(episodes) == 2
    assert report.files[0].problems == [f"{report.files[0].file}:2 is longer than 0 MiB"]


def test_long_texts_lose_their_middle(annotate: Any, written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.environments.logs.stored.MAX_TEXT", 1000)
    _, (stored,) = annotate(written("log.json", [*CHAT, {"role": "user", "content": "a" * 5000}]))
    (shown,) = stored.episode.turns[0].messages
    assert len(shown.content) < 1100 and "4000 characters are not imported" in shown.content


def test_an_episode_with_too_many_turns_is_skipped(
    annotate: Any, written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etude.environments.logs.stored.MAX_TURNS", 3)
    report, episodes = annotate(written("log.jsonl", {"messages": CHAT * 4}, {"messages": CHAT}))
    assert len(episodes) == 1
    assert report.files[0].problems == [f"{report.files[0].file}, line 1: the episode has more than 3 turns"]


def test_half_characters_and_infinite_numbers_do_not_stop_the_import(annotate: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    row = '{"messages": [{"role": "user", "content": "\\ud800"}, {"role": "assistant", "content": "\\udfff", '
    row += (
        '"tool_calls": [{"id": "\\ud800", "name": "a\\udc00", "arguments": {"x": 1e999, "y": NaN}}]}], "reward": NaN}'
    )
    log.write_text(row + "\n")
    _, (stored,) = annotate(log)
    assert stored.episode.reward is None
    assert stored.episode.turns[0].action["tool_calls"][0]["arguments"] == {"x": None, "y": None}


def test_another_run_is_not_overwritten_and_the_same_logs_are(written: Write, tmp_path: Path) -> None:
    first, second = written("first.json", CHAT), written("second.json", [*CHAT, CHAT[1]])
    out = tmp_path / "out"
    annotate_logs([first], out)
    annotate_logs([first, second], out)
    assert len(list(read_run(out))) == 2
    before = (out / FILE_NAME).read_bytes()
    with pytest.raises(RunError, match="holds another run; choose another --out"):
        annotate_logs([second], out)
    (out / FILE_NAME).write_text('{"some": "other file"}\n')
    with pytest.raises(RunError, match="holds another run"):
        annotate_logs([first], out)
    (out / FILE_NAME).write_bytes(before)
    with pytest.raises(LogError):
        annotate_logs([written("first.json", {"a": 1}), written("second.json", {"a": 1})], out)
    assert (out / FILE_NAME).read_bytes() == before
    assert [path.name for path in out.iterdir()] == [FILE_NAME]


def test_an_annotated_run_may_be_written_again_and_its_source_never(
    written: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written("log.json", CHAT)
    annotate_logs([Path("log.json")], Path("run"))
    annotate_logs([Path("run")], Path("again"))
    first = (Path("again") / FILE_NAME).read_bytes()
    annotate_logs([Path("run") / FILE_NAME], Path("again"))
    assert (Path("again") / FILE_NAME).read_bytes() == first
    for run in ("run", "again"):
        with pytest.raises(RunError, match="holds another run; choose another --out"):
            annotate_logs([Path(run)], Path(run))


def test_an_unknown_format_gets_the_nearest_name(written: Write, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown log format 'inspct'. Did you mean 'inspect'"):
        annotate_logs([written("log.json", CHAT)], tmp_path / "out", format_name="inspct")


def test_a_file_without_an_episode_counts_only_when_it_was_named(annotate: Any, written: Write, tmp_path: Path) -> None:
    """A folder of sessions may hold one that ended before the agent answered."""
    line = {"type": "user", "message": {"role": "user", "content": "x"}, "sessionId": "s", "uuid": "u"}
    (tmp_path / "logs").mkdir()
    started, chat = written("logs/started.jsonl", line), written("logs/chat.json", CHAT)
    folder_report, episodes = annotate(tmp_path / "logs")
    assert (folder_report.unread, len(episodes)) == ([], 1)
    assert [summary.skipped for summary in folder_report.files] == [0, 1]
    report, _ = annotate(started, chat)
    assert report.unread == [f"{started} holds no episode"]
    named, _ = annotate(tmp_path / "logs", format_name="openai")
    assert [summary.file for summary in named.files] == [str(chat)]


def changed(value: Any, chance: random.Random) -> Any:
    """Return the value with a few parts replaced by values of other types, dropped or repeated."""
    if chance.random() < 0.03:
        return chance.choice([None, True, 0, -1.5, "", "x", [], {}, [[]], {"a": {"b": []}}, "\ud800", [1, "2", None]])
    if isinstance(value, dict):
        return {name: changed(item, chance) for name, item in value.items() if chance.random() > 0.02}
    if isinstance(value, list):
        items = [changed(item, chance) for item in value if chance.random() > 0.02]
        return items + items[:1] if chance.random() < 0.05 else items
    return value


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("inspect/notes.json", "inspect"),
        ("verifiers/results.jsonl", "verifiers"),
        ("verifiers/traces.jsonl", "verifiers"),
        ("nemo_gym/rollouts.jsonl", "nemo-gym"),
        ("harbor/trial/agent/trajectory.json", "atif"),
        ("harbor/delegation.json", "atif"),
        ("sdk/chat.json", "openai"),
        ("sdk/responses.jsonl", "openai"),
        ("sdk/anthropic.json", "anthropic"),
        ("claude_code/0f0f0f0f-0000-4000-8000-000000000001.jsonl", "claude-code"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "detected"])
def test_a_log_with_values_of_wrong_types_is_read_or_refused(
    file: str, name: str, is_named: bool, seed: int, logs: Path, tmp_path: Path
) -> None:
    """Nothing but the errors of a command comes out, and what is written can be read back."""
    chance = random.Random(f"{file} {seed}")
    text = (logs / file).read_text()
    values = [json.loads(line) for line in text.splitlines()] if file.endswith("l") else [json.loads(text)]
    log = tmp_path / "log"
    for _ in range(5):
        log.write_text("\n".join(json.dumps(changed(value, chance)) for value in values))
        try:
            annotate_logs([log], tmp_path / "out", format_name=name if is_named else "")
        except LogError as error:
            assert str(log) in str(error)
            continue
        assert all(stored.log for stored in read_run(tmp_path / "out"))
