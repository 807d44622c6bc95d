"""Chain tools: the result of one call is the argument of the next, along records or files or from file to file."""

from __future__ import annotations

from ....errors import ToolError
from ..exercise import Deal, Drill, DrillTool, State, Steps, effect, id_tool, text_argument
from ..words import READING, Attribute, Noun

WORKDIR = "/cabinet"
_NO_FILE = "no such file"


def make(deal: Deal) -> Drill:
    """Follow a chain of ``1 + level`` records or files, or copy one file into another."""
    return deal.one((_records, _files, _copy))(deal)


# --- Records --------------------------------------------------------------------------------------------------


def _records(deal: Deal) -> Drill:
    nouns = deal.nouns(2 + deal.level)
    path, stray = nouns[: 1 + deal.level], nouns[-1]
    attribute, other = deal.attributes(2)
    first = deal.id_of(path[0])
    links = [_link(deal, here, there) for here, there in zip(path, path[1:], strict=False)]
    last, wrong = _reader(deal, path[-1], attribute), _reader(deal, path[-1], other)
    distractors = [_link(deal, path[0], stray), _link(deal, stray, path[-1]), wrong]
    way = " of the ".join(noun.word for noun in reversed(path[1:]))
    end, steps = _walk(deal, path, first, links, last)
    return Drill(
        statement=f"What is the {attribute.word} of the {way} of the {path[0].word} {first}? "
        f"Submit the {attribute.word} exactly as it is reported.",
        tools=deal.shuffled([*links, last, *distractors]),
        answer=deal.value(attribute, path[-1].prefix, end),
        solution=lambda: steps,
        features={"steps": len(steps), "distractors": len(distractors)},
    )


def _walk(deal: Deal, path: list[Noun], first: str, links: list[DrillTool], last: DrillTool) -> tuple[str, Steps]:
    """Return the id at the end of the path, and the calls that lead there."""
    at, steps = first, []
    for here, there, link in zip(path, path[1:], links, strict=False):
        steps.append((link.name, {f"{here.word}_id": at}))
        at = deal.id_of(there, here.prefix, at)
    return at, [*steps, (last.name, {f"{path[-1].word}_id": at})]


def _link(deal: Deal, here: Noun, there: Noun) -> DrillTool:
    name, description = (
        f"{deal.one(READING)}_{there.word}_of_{here.word}",
        f"The id of the {there.word} of a {here.word}.",
    )
    return id_tool(name, description, here, lambda thing_id: deal.id_of(there, here.prefix, thing_id))


def _reader(deal: Deal, noun: Noun, attribute: Attribute) -> DrillTool:
    name = f"{deal.one(READING)}_{noun.word}_{attribute.word.replace(' ', '_')}"
    description = f"The {attribute.word} of a {noun.word}."
    return id_tool(name, description, noun, lambda thing_id: deal.value(attribute, noun.prefix, thing_id))


# --- Files ----------------------------------------------------------------------------------------------------


def _files(deal: Deal) -> Drill:
    """Return a drill in which each file names the next one and the last holds a code."""
    noun = deal.nouns(1)[0]
    names = [f"{noun.word}s/{deal.code('file', place)[:4].lower()}/note-{place}.txt" for place in range(1 + deal.level)]
    code = deal.code("the end")
    files = {name: f"Go on in {after}." for name, after in zip(names, names[1:], strict=False)}
    files[names[-1]] = f"The code is {code}."
    read = _read(deal, files)
    return Drill(
        statement=f"Start with the file {names[0]} of the {noun.word} cabinet and follow it from file to file to a "
        f"code. Paths are relative to {WORKDIR}. Submit the code.",
        tools=deal.shuffled([read, _list(files)]),
        answer=code,
        solution=lambda: [(read.name, {"path": name}) for name in names],
        features={"steps": len(names)},
        workdir=WORKDIR,
    )


def _copy(deal: Deal) -> Drill:
    """Return a drill in which a file is copied into another; writing it completely gives a stamp."""
    noun = deal.nouns(1)[0]
    source, target = f"{noun.word}s/{deal.code('a')[:4].lower()}.txt", f"{noun.word}s/{deal.code('b')[:4].lower()}.txt"
    text = " ".join(deal.code("word", place) for place in range(2 + deal.level))
    read, write = _read(deal, {source: text}), _write(deal)
    return Drill(
        statement=f"Copy the text of the {noun.word} file {source} into the new file {target}, unchanged. "
        f"Paths are relative to {WORKDIR}. Submit the stamp that writing gives you.",
        tools=deal.shuffled([read, write, _list({source: text})]),
        answer=deal.code("stamp", target, text),
        solution=lambda: [(read.name, {"path": source}), (write.name, {"path": target, "content": text})],
        effects={f"file {target}": text},
        features={"steps": 2},
        workdir=WORKDIR,
    )


def _inside(path: str) -> str:
    """Return the path below the cabinet. Raises ToolError for one outside."""
    if path.startswith("/") and not path.startswith(WORKDIR + "/"):
        raise ToolError("file_not_found", f"{_NO_FILE}: {path[:200]}")
    return path.removeprefix(WORKDIR + "/").removeprefix("./")


def _read(deal: Deal, files: dict[str, str]) -> DrillTool:
    def run(state: State, arguments: dict[str, str]) -> str:
        name = _inside(arguments["path"])
        written = state.get("effects", {}).get(f"file {name}")
        text = files.get(name) if written is None else written
        if text is None:
            raise ToolError("file_not_found", f"{_NO_FILE}: {arguments['path'][:200]}")
        return text

    return DrillTool(f"{deal.one(READING)}_file", "The text of one file.", text_argument("path"), run)


def _write(deal: Deal) -> DrillTool:
    def run(state: State, arguments: dict[str, str]) -> str:
        name = _inside(arguments["path"])
        effect(state, f"file {name}", arguments["content"])
        return f"stamp {deal.code('stamp', name, arguments['content'])}"

    description = "Writes a file, replacing what was there, and gives its stamp."
    return DrillTool("write_file", description, text_argument("path", "content"), run)


def _list(files: dict[str, str]) -> DrillTool:
    folders = sorted({name.rpartition("/")[0] + "/" for name in files})
    listing = "\n".join(folders)
    return DrillTool("list_folders", "The folders that there are.", text_argument(), lambda state, arguments: listing)
