"""The generator ``history_pr``: merges and squashed pull requests as one change, with the text of the pull request."""

from __future__ import annotations

REFUSE = ("return paid - price", "if paid < price:\n        raise ValueError('too little')\n    return paid - price")
REFUSE_TEST = """

def test_too_little_is_refused():
    import pytest
    with pytest.raises(ValueError, match="too little"):
        change(5, 3)
"""


def title(candidate):
    return candidate.statement.description.title


def test_a_merge_is_taken_back_with_all_its_commits(history, propose):
    history.git("checkout", "--quiet", "-b", "small")
    history.edit("wip", code=REFUSE)
    history.edit("tests", test=REFUSE_TEST)
    history.git("checkout", "--quiet", "main")
    history.git(
        "merge",
        "--quiet",
        "--no-ff",
        "small",
        "-m",
        "Merge pull request #7 from ada/small\n\nRefuse payments that are too small\n\nCloses #6.",
    )
    (candidate,) = propose(history, "history_pr")
    assert candidate.blocked is None
    assert title(candidate) == "Refuse payments that are too small"
    assert candidate.statement.description.body == ""
    assert b"too little" not in candidate.exercise["till/money.py"]
    assert candidate.features["commit_files"] == 2


def test_a_merge_without_a_text_takes_that_of_its_first_telling_commit(history, propose):
    history.git("checkout", "--quiet", "-b", "small")
    history.edit("Refuse payments that are too small", code=REFUSE)
    history.edit("Add test", test=REFUSE_TEST)
    history.git("checkout", "--quiet", "main")
    history.git("merge", "--quiet", "--no-ff", "small", "-m", "Merge branch 'small'")
    (candidate,) = propose(history, "history_pr")
    assert title(candidate) == "Refuse payments that are too small"


def test_a_squashed_pull_request_is_found_by_its_number_and_other_commits_are_not(history, propose):
    history.edit("Refuse payments that are too small (#12)", code=REFUSE, test=REFUSE_TEST)
    history.edit("Total of strings of digits", code=("sum(amounts)", "sum(map(int, amounts))"), test="\n# more\n")
    assert [title(item) for item in propose(history, "history_pr")] == ["Refuse payments that are too small"]
