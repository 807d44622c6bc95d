"""Licence of a project as an SPDX expression, and the licences that count as permissive."""

from __future__ import annotations

from email.parser import HeaderParser
from pathlib import Path

import pytest

from etude.environments.snapshots.project.licences import canonical, detect, from_files, is_permissive

OSI = "Classifier: License :: OSI Approved :: "
MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"
KEEP = " The above copyright notice and this permission notice shall be included in all copies."
BSD = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted."
ENDORSE = " Neither the name of X nor its contributors may be used to endorse or promote products"
ISC = "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is granted"


@pytest.mark.parametrize(
    ("metadata", "texts", "licence"),
    [
        ("License-Expression: mit or apache-2.0\nLicense: x\n", [], "MIT OR Apache-2.0"),
        ("License: MIT\n", [], "MIT"),
        ("License: MIT License\n", [], "MIT"),
        ("License: Apache License, Version 2.0\n", [], "Apache-2.0"),
        (f"License: {MIT}{KEEP}\n", [], "MIT"),
        (f"License: BSD\n{OSI}BSD License\n", [], "LicenseRef-BSD"),
        (f"License: BSD\n{OSI}BSD License\n", [BSD], "BSD-2-Clause"),
        (f"License: BSD\n{OSI}BSD License\n", [BSD + ENDORSE], "BSD-3-Clause"),
        (f"{OSI}MIT License\n", [], "MIT"),
        (f"{OSI}MIT License\n{OSI}GNU General Public License v3 (GPLv3)\n", [], "MIT AND GPL-3.0-only"),
        (
            f"License: Dual License\n{OSI}BSD License\n{OSI}Apache Software License\n",
            [BSD],
            "BSD-2-Clause OR Apache-2.0",
        ),
        ("License: UNKNOWN\n", [], ""),
        ("License: UNKNOWN\n", [MIT + KEEP], "MIT"),
        ("License: proprietary, ask us\n", [], "proprietary, ask us"),
        ("", [], ""),
        ("", [MIT], "MIT-0"),
        ("", ["  Apache License\n  Version 2.0, January 2004"], "Apache-2.0"),
        ("", [ISC + ", provided that the above copyright notice appears"], "ISC"),
        ("", [ISC], "0BSD"),
        ("", ["This is free and unencumbered software released into the public domain."], "Unlicense"),
        ("", ["CC0 1.0 Universal"], "CC0-1.0"),
        ("", ["3. Altered source versions must be plainly marked as such"], "Zlib"),
        ("", ["PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2"], "PSF-2.0"),
        (
            "",
            ["Mozilla Public License Version 2.0\n" + "x " * 400 + "GNU General Public License"],
            "MPL-2.0",
        ),
        ("", ["GNU LESSER GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007"], "LGPL-3.0-only"),
        ("", ["GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n" + "x " * 400 + MIT + KEEP], "GPL-3.0-only"),
        ("", [MIT + KEEP, BSD], "MIT AND BSD-2-Clause"),
        ("", ["All rights reserved."], ""),
    ],
)
def test_detect_reads_metadata_classifiers_and_texts(
    metadata: str, texts: list[str], licence: str, tmp_path: Path
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"LICENSE.{number}").write_text(text)
    assert detect(HeaderParser().parsestr(metadata), tmp_path) == licence


def test_from_files_reads_the_top_folder_and_licenses(tmp_path: Path) -> None:
    (tmp_path / "LICENSES").mkdir()
    (tmp_path / "LICENSES" / "MIT.txt").write_text(MIT + KEEP)
    (tmp_path / "COPYING").write_text(BSD)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "LICENSE").write_text("CC0 1.0 Universal")
    assert from_files(tmp_path) == ["BSD-2-Clause", "MIT"]


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True),
        ("mit", True),
        ("Apache-2.0 AND BSD-3-Clause", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT AND (GPL-3.0-only OR ISC)", True),
        ("GPL-2.0-only OR MIT AND MPL-2.0", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("LicenseRef-BSD", True),
        ("LicenseRef-Proprietary", False),
        ("MPL-2.0", False),
        ("LGPL-2.1-or-later", False),
        ("", False),
        ("proprietary, ask us", False),
        ("MIT OR", False),
    ],
)
def test_is_permissive_evaluates_the_expression(expression: str, permissive: bool) -> None:
    assert is_permissive(expression) is permissive


def test_canonical_spells_an_expression_or_refuses_it() -> None:
    assert canonical("mit or (apache-2.0)") == "MIT OR (Apache-2.0)" and canonical("BSD") == ""
