# SPDX-License-Identifier: GPL-2.0-only
"""DOC, PPT and XLS of before 2007: LibreOffice, where installed, turns them into what the other loaders read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path, PurePath

from bigos.errors import DocumentError
from bigos.loaders import docx, pptx, xlsx
from bigos.loaders.container import is_ole, refuse_encrypted_office
from bigos.loaders.external import run_converter, scratch_folder
from bigos.loaders.options import LoadOptions
from bigos.loaders.sections import Parsed
from bigos.types import SourceFile

_Load = Callable[[SourceFile, bytes, LoadOptions], Parsed]
# The stream in the OLE file that makes it one, the extension it has and the one it gets. A name in an OLE directory is
# UTF-16, and no program writes one of these into another's file but as an embedded object, which comes later.
_KINDS: tuple[tuple[str, str, str, str, _Load], ...] = (
    ("PowerPoint Document", "ppt", "pptx", "libreoffice-impress", pptx.load),
    ("WordDocument", "doc", "docx", "libreoffice-writer", docx.load),
    ("Workbook", "xls", "xlsx", "libreoffice-calc", xlsx.load),
    ("Book", "xls", "xlsx", "libreoffice-calc", xlsx.load),
)
# Its own switch against links (the first) holds for its own formats and not for a .doc: so a proxy that is not there.
_SETTINGS = (
    ("Office.Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Inet/Settings", "ooInetProxyType", "2"),
    ("Inet/Settings", "ooInetHTTPProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPProxyPort", "9"),
    ("Inet/Settings", "ooInetHTTPSProxyName", "127.0.0.1"),
    ("Inet/Settings", "ooInetHTTPSProxyPort", "9"),
    ("Inet/Settings", "ooInetNoProxy", ""),
)
_BY_EXTENSION = {"pot": "ppt", "pps": "ppt", "dot": "doc", "xlt": "xls"}


def load(source: SourceFile, data: bytes, options: LoadOptions) -> Parsed:
    """The converted file's text.

    Raises:
        DocumentError: "needs LibreOffice" with the package, "needs a password", "timed out", "unknown format" for an
            OLE file of another program, "damaged" when LibreOffice cannot read it.
    """
    if not is_ole(data):
        raise DocumentError("damaged", "not an Office file of before 2007")
    refuse_encrypted_office(data)
    old, new, package, read = _kind(source.path, data)
    program = shutil.which("soffice") or shutil.which("libreoffice")
    if program is None:
        raise DocumentError(
            "needs LibreOffice", f"a .{old} file of before 2007 is read through LibreOffice, which is not installed",
            fix=f"sudo apt install {package} && bigos ingest --reindex ...",
        )  # fmt: skip
    with scratch_folder(options.scratch) as folder:
        copy, target = folder / f"document.{old}", folder / f"document.{new}"
        copy.write_bytes(data)
        _write_profile(folder / "profile" / "user")
        # A profile of its own: the user's may be open in another LibreOffice, which would take the job and not do it.
        words = run_converter(
            [program, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore", "--nolockcheck",
             "--nodefault", "--convert-to", new, "--outdir", str(folder), str(copy)], folder, {}, name="LibreOffice",
        )  # fmt: skip
        if not target.is_file():  # it ends with 0 also when it could not read the file
            raise DocumentError(
                "damaged", f"LibreOffice cannot read it: {words.removeprefix('Error: ') or 'it gave no reason'}"
            )
        return read(source, target.read_bytes(), options)


def _write_profile(folder: Path) -> None:
    """Settings under which a document loads nothing: a linked picture is fetched over the network otherwise."""
    items = "".join(
        f'<item oor:path="/org.openoffice.{path}"><prop oor:name="{name}" oor:op="fuse">'
        f"<value>{value}</value></prop></item>"
        for path, name, value in _SETTINGS
    )
    folder.mkdir(parents=True)
    (folder / "registrymodifications.xcu").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
        f'xmlns:xs="http://www.w3.org/2001/XMLSchema">{items}</oor:items>'
    )


def _kind(path: PurePath, data: bytes) -> tuple[str, str, str, _Load]:
    named = path.suffix.lstrip(".").lower()
    named = _BY_EXTENSION.get(named, named)
    found = [kind for kind in _KINDS if kind[0].encode("utf-16-le") + b"\0\0" in data]
    if not found and named in ("doc", "ppt", "xls"):
        raise DocumentError("damaged", f"there is no document in the .{named} file; it may be cut short")
    if not found:
        raise DocumentError("unknown format", "an OLE file that is no Word, PowerPoint or Excel document", skipped=True)
    _, old, new, package, read = next((kind for kind in found if kind[1] == named), found[0])
    return old, new, package, read
