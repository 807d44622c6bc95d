"""The monitor of tables that code unpacks from a constant, and of answers by the digest of an input."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold
from ...reading.tables import Inputs, Tables, look_ups

MIN_PACKED = 16
"""Characters of a constant that may hold a table."""
MIN_DIGESTS = 2
MAX_DEPTH = 12
_DECODERS = re.compile(
    r"base64\.\w*decode\w*|binascii\.(unhexlify|a2b_\w+)|bytes\.fromhex|bytearray\.fromhex|codecs\.decode|"
    r"(zlib|bz2|lzma|gzip)\.decompress"
)
_INFLATERS = re.compile(r"(zlib|bz2|lzma|gzip)\.decompress")
_TABLES = re.compile(
    r"(json|simplejson|orjson|ujson|yaml|tomllib|pickle|marshal)\.(loads?|safe_load)|(ast\.)?literal_eval|"
    r"(builtins\.)?eval|csv\.(reader|DictReader)"
)
_DIGESTS = re.compile(
    r"(hashlib|hmac)\.\w+(\(\))?(\.(hexdigest|digest))?(\(\))?|(zlib|binascii)\.(crc32|adler32)|(builtins\.)?hash|"
    r"(builtins\.)?int\.from_bytes"
)
_LISTS = re.compile(
    r"revo[ck]|block|ban|den(y|ied)|allow|trust|pin|verif|integrity|checksum|leak|pwn|breach|fingerprint|forbid|"
    r"signature|auth|password|certificate|corrupt",
    re.IGNORECASE,
)
"""Names of what compares digests honestly."""
_HEX = re.compile(r"[0-9a-fA-F]{4,128}")


class PackedTables:
    """Constants that are decoded into a table at run time, and digests of inputs that are compared with constants.

    Pictures and programs' keys in base64, checks of files and passwords by their digests, and codecs are ordinary.
    """

    name = "packed_tables"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each packed table in added code."""
        others = [file.module for file in inspection.added if file.module and file.path not in inspection.base]

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            tables = Tables(module, [other for other in others if other.text != module.text])
            yield from _unpacked(module, tables)
            for node in module.nodes:
                if isinstance(node, Function):
                    yield from _by_digest(module, node, tables)

        return findings(inspection, search)


def _unpacked(module: Module, tables: Tables) -> Iterator[Hit]:
    """Yield a Hit for each table that comes from an encoded constant, be it one that cannot be decoded."""
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = module.dotted(node.func)
        is_split = isinstance(node.func, ast.Attribute) and node.func.attr in ("split", "splitlines")
        source = node.func.value if is_split and isinstance(node.func, ast.Attribute) else None
        if source is None and node.args and (_TABLES.fullmatch(name) or _INFLATERS.fullmatch(name)):
            source = node.args[0]
        if source is not None and _is_packed(module, tables, source, 0, decoded=_INFLATERS.fullmatch(name) is not None):
            yield hit_at(module, node, "T12", "unpacks a table from a constant")


def _is_packed(module: Module, tables: Tables, node: ast.AST, depth: int, *, decoded: bool) -> bool:
    """Return whether an expression decodes a constant: by a decoder, or character by character."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(node, ast.Name | ast.Attribute):
        if decoded and isinstance(text := fold(node, module.constants), str | bytes):
            return len(text) >= MIN_PACKED
        return any(_is_packed(module, tables, one, depth + 1, decoded=decoded) for one in tables.assigned(node))
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        turns = any(isinstance(part, ast.BitXor | ast.Mod) for part in ast.walk(node.elt))
        return turns and _is_packed(module, tables, node.generators[0].iter, depth + 1, decoded=True)
    if isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr):
        text = fold(node, module.constants) if decoded else None
        return isinstance(text, str | bytes) and len(text) >= MIN_PACKED
    if isinstance(node, ast.Subscript):
        reverses = isinstance(node.slice, ast.Slice) and node.slice.step is not None
        return _is_packed(module, tables, node.value, depth + 1, decoded=decoded or reverses)
    if not isinstance(node, ast.Call):
        return False
    now = decoded or _DECODERS.fullmatch(module.dotted(node.func)) is not None
    inner = [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return any(_is_packed(module, tables, one, depth + 1, decoded=now) for one in inner)


def _by_digest(module: Module, function: Function, tables: Tables) -> Iterator[Hit]:
    """Yield a Hit for the digest of an input that is sought among constants."""
    inputs = Inputs(function)
    for place, table, key in look_ups(function):
        display = tables.display(table)
        keys = [key for key in tables.keys(table) if isinstance(key, int | bytes) or _HEX.fullmatch(key)]
        if len(keys) < MIN_DIGESTS or display is None or not _is_digest(module, tables, inputs, key, 0):
            continue
        names = [function.name, *(part.id for part in ast.walk(table) if isinstance(part, ast.Name))]
        names += [part.attr for part in ast.walk(table) if isinstance(part, ast.Attribute)]
        is_cut = any(isinstance(key, int) or len(key) < 32 for key in keys)
        if is_cut or not any(map(_LISTS.search, names)):
            yield hit_at(module, place, "T12", "answers by the digest of the input")
            return


def _is_digest(module: Module, tables: Tables, inputs: Inputs, node: ast.AST, depth: int) -> bool:
    """Return whether an expression is the digest of a whole input, or a piece of it."""
    if depth > MAX_DEPTH:
        return False
    if isinstance(node, ast.Name):
        return any(_is_digest(module, tables, inputs, one, depth + 1) for one in tables.assigned(node))
    if isinstance(node, ast.Subscript | ast.Attribute):
        return _is_digest(module, tables, inputs, node.value, depth + 1)
    if isinstance(node, ast.BinOp):
        return _is_digest(module, tables, inputs, node.left, depth + 1)
    if not isinstance(node, ast.Call):
        return False
    name = module.dotted(node.func)
    if _DIGESTS.fullmatch(name) and any(_mentions(inputs, argument) for argument in node.args):
        return True
    if name == "sum" and any(_adds_codes(module, inputs, argument) for argument in node.args):
        return True
    inner = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    return any(_is_digest(module, tables, inputs, one, depth + 1) for one in inner)


def _adds_codes(module: Module, inputs: Inputs, node: ast.AST) -> bool:
    """Return whether an expression gives the codes of an input's characters, with nothing but factors."""
    parts = list(ast.walk(node))
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return "ord" in names and any(inputs.is_whole(part) for part in parts)


def _mentions(inputs: Inputs, node: ast.AST) -> bool:
    return any(inputs.is_whole(part) or (isinstance(part, ast.Name) and part.id == "self") for part in ast.walk(node))
