"""The generator ``history_revert``: which commits are taken back, what the workspace has then, and what is refused."""

from __future__ import annotations

import pytest

from etude.errors import GeneratorError, NotApplicable, Rejected
from etude.generators.base import StatementContext
from etude.models import InterfaceItem

REFUSE = ("return paid - price", "if paid < price:\n        raise ValueError('too little')\n    return paid - price")
REFUSE_TEST = """

def test_too_little_is_refused():
    import pytest
    with pytest.raises(ValueError, match="too little"):
        change(5, 3)
"""
COINS = '''

def coins(amount):
    """Return the fewest coins of 5 and 1."""
    return [5] * (amount // 5) + [1] * (amount % 5)
'''
COINS_TEST = """

def test_coins():
    assert coins(7) == [5, 1, 1]
"""


def title(candidate):
    return candidate.statement.description.title


def reason(candidate):
    return candidate.blocked.reason if candidate.blocked else ""


def test_a_commit_is_taken_back_in_the_sources_alone(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.commit("Say more", {"README.md": "Money.\n"})
    (candidate,) = propose(history)
    assert reason(candidate) == ""
    assert list(candidate.exercise) == ["till/money.py"]
    assert b"too little" not in candidate.exercise["till/money.py"]
    assert candidate.hidden_tests.affected == ["tests/test_money.py::test_too_little_is_refused"]
    assert candidate.features["date"] == "2024-01-03"


def test_a_later_commit_stays_in_place_when_an_older_one_is_taken_back(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.edit("Total of strings of digits", code=("sum(amounts)", "sum(map(int, amounts))"), test="\n# more\n")
    older = propose(history)[-1]
    assert b"map(int, amounts)" in older.exercise["till/money.py"]
    assert b"too little" not in older.exercise["till/money.py"]


def test_a_commit_is_refused_when_later_commits_changed_the_same_lines(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.edit("Explain refused payments in full", code=("'too little'", "'too little money'"), test="\n# more\n")
    assert reason(propose(history)[-1]) == "history_conflict"


def test_test_files_lose_imports_of_names_that_are_gone(history, propose):
    last = ("return paid - price\n", f"return paid - price\n{COINS}")
    history.edit("Count the coins of an amount", code=last, test=COINS_TEST, imported="coins, ")
    (candidate,) = propose(history)
    rewritten = candidate.hidden_tests.rewritten["tests/test_money.py"]
    assert b"import change, total" in rewritten
    assert candidate.hidden_tests.lost_names == {"tests/test_money.py": ["coins"]}
    assert [item.name for item in candidate.interface] == ["till.money.coins"]
    assert "Return the fewest coins of 5 and 1." in candidate.statement.render(
        StatementContext("till 1.0", candidate.hidden_tests.affected, [])
    )


def test_a_commit_is_refused_when_later_code_needs_its_names(history, propose):
    last = ("return paid - price\n", f"return paid - price\n{COINS}")
    history.edit("Count the coins of an amount", code=last, test=COINS_TEST, imported="coins, ")
    history.commit(
        "Purse of coins", {"till/purse.py": "from till import money\n\n\ndef purse():\n    return money.coins(9)\n"}
    )
    candidate = propose(history)[-1]
    assert reason(candidate) == "history_later_use"
    assert "coins" in candidate.blocked.detail


def test_a_commit_is_refused_when_its_tests_are_not_stable(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history, passed=["tests/test_money.py::test_total"])
    assert reason(candidate) == "history_tests_gone"


def test_tests_are_found_where_their_file_was_moved(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.git("mv", "tests/test_money.py", "tests/test_payments.py")
    history.commit("Move the tests", {})
    (candidate,) = propose(history)
    assert candidate.hidden_tests.affected == ["tests/test_payments.py::test_too_little_is_refused"]


def test_a_moved_test_whose_name_stands_in_two_files_is_not_guessed(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.git("mv", "tests/test_money.py", "tests/test_payments.py")
    history.commit("Move the tests", {"tests/test_twice.py": REFUSE_TEST})
    (candidate,) = propose(history)
    assert reason(candidate) == "history_tests_gone"


def test_a_commit_of_comments_is_refused(history, propose):
    history.edit(
        "Payment rules explained at length", code=("return paid", "# Never less.\n    return paid"), test="\n# x\n"
    )
    (candidate,) = propose(history)
    assert reason(candidate) == "history_no_code"


def test_files_that_differ_from_the_commit_are_refused(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (history.folder / "till/money.py").write_text(history.read("till/money.py") + "\nEXTRA = 1\n")
    (candidate,) = propose(history)
    assert reason(candidate) == "history_uncommitted"


@pytest.mark.parametrize(
    "message",
    [
        "fix",
        "wip: more checks for payments",
        'Revert "Refuse payments"',
        "Bump pytest from 8.1 to 8.2",
        "Release 1.2.0",
        "Reformat payments with ruff",
        "Refactor payments into smaller parts",
        "Fix #12",
        "Address review comments on payments",
    ],
)
def test_a_message_without_a_behaviour_is_refused(history, propose, message):
    history.edit(message, code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    assert reason(candidate) == "history_message"


def test_the_statement_never_quotes_the_code_that_is_gone(history, propose):
    body = "Payments raise now.\n\nThe code is\n\n    raise ValueError('too little')\n\nand that is all."
    history.edit(f"Refuse payments that are too small\n\n{body}", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    text = candidate.statement.render(StatementContext("till 1.0", candidate.hidden_tests.affected, []))
    assert "raise ValueError" not in text
    assert "Payments raise now." in text
    assert "too little is refused" in text


def test_a_statement_with_little_prose_quotes_a_failing_test_and_one_with_more_does_not(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    context = StatementContext("till 1.0", candidate.hidden_tests.affected, [])
    assert "def test_too_little_is_refused():" in candidate.statement.render(context)
    with pytest.raises(Rejected, match="history_under_specified"):
        candidate.statement.render(StatementContext("till 1.0", ["tests/test_money.py::test_other"], []))
    body = "A customer who pays less than the price gets a clear refusal: every till agrees with its ledger at night."
    history.git("commit", "--quiet", "--amend", "-m", f"Refuse payments that are too small\n\n{body}")
    (candidate,) = propose(history)
    assert "def test_" not in candidate.statement.render(context)


def test_a_quoted_test_names_no_issue(history, propose):
    test = REFUSE_TEST.replace("refused():", "refused_issue12():  # see issue 12\n    # https://example.org/ada/12")
    history.edit("Refuse payments that are too small", code=REFUSE, test=test)
    (candidate,) = propose(history)
    text = candidate.statement.render(StatementContext("till 1.0", candidate.hidden_tests.affected, []))
    assert "def test_too_little_is_refused():\n" in text
    assert "12" not in text and "example.org" not in text


def test_the_statement_says_how_tests_fail(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    (test,) = candidate.hidden_tests.affected
    text = candidate.statement.render(
        StatementContext("till 1.0", [test], [], {test: "Failed: DID NOT RAISE ValueError"})
    )
    assert "- test_too_little_is_refused: `Failed: DID NOT RAISE ValueError`" in text


def test_the_statement_names_what_the_failing_tests_use_and_not_what_others_use(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    used = InterfaceItem(name="till.money.change", kind="function", signature="def change(price, paid)")
    unused = InterfaceItem(name="till.money.total", kind="function", signature="def total(amounts)")
    text = candidate.statement.render(StatementContext("till 1.0", candidate.hidden_tests.affected, [used, unused]))
    assert "def change(price, paid)" in text
    assert "def total" not in text


def test_only_changes_since_the_day_of_the_knob_are_taken(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    history.edit("Total of strings of digits", code=("sum(amounts)", "sum(map(int, amounts))"), test="\n# more\n")
    assert [title(item) for item in propose(history, since="2024-01-04")] == ["Total of strings of digits"]
    with pytest.raises(GeneratorError, match="knob since must be a day such as 2026-01-31, got 'soon'"):
        propose(history, since="soon")


def test_commits_beyond_the_limits_are_no_candidates(history, propose):
    history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    assert propose(history, max_lines=1) == []
    assert propose(history, min_lines=50) == []


def test_the_order_is_newest_first_or_drawn_from_the_seed(history, propose):
    for number in range(6):
        history.edit(
            f"Greeting of customer kind {'abcdef'[number]}",
            code=("return paid - price\n", f"return paid - price\n\n\ndef greet_{number}():\n    return {number}\n"),
            test=f"\n# {number}\n",
        )
    newest = [title(item) for item in propose(history)]
    assert newest == sorted(newest, reverse=True)
    sampled = [title(item) for item in propose(history, order="sampled")]
    assert sampled != newest and sorted(sampled) == sorted(newest)
    assert sampled == [title(item) for item in propose(history, order="sampled")]


def test_a_row_records_the_commit_that_was_read(history, propose):
    head = history.edit("Refuse payments that are too small", code=REFUSE, test=REFUSE_TEST)
    (candidate,) = propose(history)
    assert candidate.generator.knobs["head"] == head


@pytest.mark.parametrize(
    ("head", "problem"),
    [("abc", "must be a full commit id of 40 digits"), ("a" * 40, "the history holds no commit aaa")],
)
def test_a_head_that_is_no_commit_of_the_history_is_one_clear_line(history, propose, head, problem):
    with pytest.raises(GeneratorError, match=problem):
        propose(history, head=head)


def test_a_source_without_history_is_one_clear_line(history, propose):
    with pytest.raises(NotApplicable, match="no history to read; give the project as git"):
        propose(history, noted=False)
