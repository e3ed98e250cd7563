# SPDX-License-Identifier: GPL-2.0-only
"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bigos
from processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bigos"
SPDX = "SPDX-License-Identifier: GPL-2.0-only"
MODULES = sorted(SOURCE.rglob("*.py"))
MODULE_NAMES = [str(module.relative_to(SOURCE)) for module in MODULES]
HEAVY = {
    "bs4", "charset_normalizer", "docx", "ebooklib", "httpx", "lingua", "lxml", "mcp", "mobi", "numpy", "odf", "onnx",
    "onnxruntime", "openpyxl", "pdf2image", "pebble", "pptx", "pydantic", "pypdf", "pypdfium2", "pytesseract",
    "qdrant_client", "qdrant_edge", "rich", "striprtf", "tokenizers", "watchfiles",
}  # fmt: skip
SERVER_STORE = {f"stores/{name}.py" for name in (
    "server", "server_collection", "server_connection", "server_faults", "server_points",
    "server_snapshots", "server_succession",
)}  # fmt: skip
AT_HOME_IN = {
    "qdrant_edge": {"stores/compaction.py", "stores/embedded.py", "stores/interrupted.py", "stores/shard.py"},
    "qdrant_client": SERVER_STORE,
    "mcp": {"mcp_server.py"},
    "httpx": {"embedders/service.py"} | SERVER_STORE,  # qdrant-client's transport, whose errors are told
    "onnxruntime": {"embedders/onnx.py"},
    "watchfiles": {"notices.py"},
    "rich": {"progress.py", "status_command.py"},
}


def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / module).read_text(encoding="utf-8"), module)


def _imports(module: str) -> Iterator[str]:
    """Top-level names of everything that a module imports, in functions too."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _our_scripts() -> list[Path]:
    python = [file for folder in ("src", "tests", "scripts") for file in (ROOT / folder).rglob("*.py")]
    shell = [ROOT / "setup.sh", ROOT / ".ci" / "run", *(ROOT / "scripts").glob("*.sh")]
    return sorted([*python, *shell])


def test_every_source_file_names_its_licence_at_its_top() -> None:
    lacking = [
        str(file.relative_to(ROOT))
        for file in _our_scripts()
        if SPDX not in "".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:3])
    ]
    assert lacking == []


def test_no_module_is_longer_than_one_sitting() -> None:
    long = {name: n for name in MODULE_NAMES if (n := len((SOURCE / name).read_text("utf-8").splitlines())) > 400}
    assert long == {}


def test_the_version_is_said_once_and_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == bigos.__version__


def test_the_licence_file_is_the_whole_gpl_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2, June 1991" in text
    assert "How to Apply These Terms to Your New Programs" in text
    assert len(text.splitlines()) > 330


@pytest.mark.parametrize("module", [name for name in MODULE_NAMES if name != "config.py"])
def test_only_config_reads_the_environment(module: str) -> None:
    reads = [
        f"{module}:{node.lineno}"
        for node in ast.walk(_tree(module))
        if (isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"})
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and {a.name for a in node.names} & {"environ"})
    ]
    assert reads == []


@pytest.mark.parametrize("module", MODULE_NAMES)
def test_a_foreign_library_stays_behind_its_one_door(module: str) -> None:
    strays = {name for name in _imports(module) if module not in AT_HOME_IN.get(name, {module})}
    assert strays == set()


@pytest.mark.parametrize("module", MODULE_NAMES)
def test_nothing_is_printed_but_to_a_named_stream(module: str) -> None:
    bare = [
        f"{module}:{node.lineno}"
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and not any(keyword.arg == "file" for keyword in node.keywords)
    ]
    assert bare == []


def test_importing_the_command_line_loads_no_heavy_module() -> None:
    program = "import sys, bigos.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert HEAVY & set(result.stdout.split()) == set()


def test_the_mcp_configuration_starts_the_server_of_this_checkout() -> None:
    servers = json.loads((ROOT / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    server = servers["bigos"]
    assert server["command"] == ".venv/bin/python"  # clients start it in the project's folder
    assert server["args"] == ["-m", "bigos.mcp_server"]
    assert (SOURCE / "mcp_server.py").is_file()


def test_the_map_of_the_house_names_every_room_and_no_other() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    named = set(re.findall(r"`(\w+)`", " ".join(row.split("|", 2)[2] for row in rows if "`stores/`" not in row)))
    rooms = {module.stem for module in SOURCE.glob("*.py")} - {"__init__"}
    assert named == rooms
    embedded, server = (
        set(re.findall(r"`(\w+)`", row.split("|", 2)[2])) for row in rows if row.startswith("| `stores/`")
    )
    stores = {module.stem for module in (SOURCE / "stores").glob("*.py")} - {"__init__"}
    assert embedded | {name if name == "server" else f"server_{name}" for name in server - {"server_"}} == stores


def test_no_module_of_the_package_is_a_drawer_for_leftovers() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "common"}
    assert {Path(name).stem for name in MODULE_NAMES} & drawers == set()
