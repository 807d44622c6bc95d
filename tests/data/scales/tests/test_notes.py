import pytest

from scales import NoteError, frequency, interval, transpose
from scales.notes import chord, index

HERTZ = {"A4": 440.0, "A5": 880.0, "C4": 261.6255653005986}
TRIADS = {"C": ["C", "E", "G"], "A": ["A", "C#", "E"]}


def close(left, right):
    return abs(left - right) < 1e-6


@pytest.mark.parametrize("text", sorted(HERTZ))
def test_frequency_of_known_notes(text):
    assert close(frequency(text), HERTZ[text])


def test_frequency_follows_the_concert_pitch():
    assert close(frequency("A4", concert_pitch=432.0), 432.0)
    with pytest.raises(ValueError, match="must be positive"):
        frequency("A4", concert_pitch=0)


def test_frequency_needs_an_octave():
    with pytest.raises(NoteError, match="not a note with an octave"):
        frequency("A")


class TestInterval:
    def test_up_a_fifth(self):
        assert interval("C", "G") == 7

    def test_wraps_around(self):
        assert interval("B", "C") == 1

    def test_whole_steps(self):
        assert interval("C", "D", steps=True) == 1


def test_transpose_down():
    assert transpose("C", -1) == "B"


def test_flats_are_sharps():
    assert index("Db") == index("C#")


@pytest.mark.parametrize("root", sorted(TRIADS))
def test_chord_is_a_triad(root):
    assert chord(root, 4, 7) == TRIADS[root]


def test_unknown_note():
    with pytest.raises(NoteError):
        index("H")
