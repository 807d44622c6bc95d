import unittest

from scales import scale
from scales.patterns import relative


class ScaleTest(unittest.TestCase):
    def test_major(self):
        self.assertEqual(scale("C"), ["C", "D", "E", "F", "G", "A", "B"])

    def test_minor(self):
        self.assertEqual(scale("A", "minor"), ["A", "B", "C", "D", "E", "F", "G"])

    def test_unknown_pattern(self):
        with self.assertRaises(KeyError):
            scale("C", "dorian")


class RelativeTest(unittest.TestCase):
    def test_there_and_back(self):
        self.assertEqual(relative("C"), "A")
        self.assertEqual(relative("A", "minor"), "C")

    def test_unknown_pattern(self):
        with self.assertRaises(KeyError):
            relative("C", "dorian")
