"""Words of drills. The nouns for evaluation differ from those for training, and every statement contains one."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Noun(NamedTuple):
    """A thing that drills ask about."""

    word: str
    other: str
    prefix: str
    """What ids of the thing start with."""


class Attribute(NamedTuple):
    """A property of things."""

    word: str
    other: str
    form: Literal["date", "amount", "name", "code"]


_TRAIN = (
    Noun("invoice", "bill", "INV"),
    Noun("parcel", "package", "PRC"),
    Noun("employee", "worker", "EMP"),
    Noun("car", "automobile", "CAR"),
    Noun("customer", "client", "CUS"),
    Noun("supplier", "vendor", "SUP"),
    Noun("picture", "photograph", "PIC"),
    Noun("contract", "agreement", "CON"),
    Noun("meeting", "appointment", "MTG"),
    Noun("machine", "apparatus", "MCH"),
    Noun("building", "edifice", "BLD"),
    Noun("song", "tune", "SNG"),
)
_EVAL = (
    Noun("ship", "vessel", "SHP"),
    Noun("lawyer", "attorney", "LAW"),
    Noun("film", "movie", "FLM"),
    Noun("physician", "doctor", "PHY"),
    Noun("complaint", "grievance", "CMP"),
    Noun("journey", "trip", "JRN"),
    Noun("grant", "subsidy", "GRT"),
    Noun("sofa", "couch", "SOF"),
)
NOUNS = (_TRAIN, _EVAL)
ATTRIBUTES = (
    Attribute("due date", "deadline", "date"),
    Attribute("creation date", "start day", "date"),
    Attribute("price", "cost", "amount"),
    Attribute("weight", "mass", "amount"),
    Attribute("owner", "proprietor", "name"),
    Attribute("author", "originator", "name"),
    Attribute("access code", "passphrase", "code"),
    Attribute("storage place", "location", "code"),
    Attribute("serial number", "factory code", "code"),
    Attribute("insurer", "underwriter", "name"),
)
READING = ("get", "fetch", "look_up", "retrieve", "read", "show")
CHANGING = ("delete", "reset", "archive", "overwrite")
NAMES = (
    "Abe Ada Ali Ann Ben Bo Cai Cleo Dan Dora Eli Em Eve Finn Fay Gil Gus Ida Ines Ivo Jan Joy Kai Kim Lea Leo Lin Liv "
    "Max Mia Moe Nia Noa Nils Ola Omar Pia Paul Quin Ray Rosa Roy Sam Sara Sven Tess Tom Uma Una Vera Vik Wes Wim Xia "
    "Yan Yves Zoe Zack Otto Olga Bea Ken Hal Hugo"
).split()
