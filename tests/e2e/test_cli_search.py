# SPDX-License-Identifier: GPL-2.0-only
"""`bigos` search, show, status and doctor over one small index, and the edges of the process: streams and locale."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import REPO, Home
from processes import PATIENCE

HIT_FIELDS = [
    "rank",
    "score",
    "chunk_id",
    "kind",
    "source_path",
    "source_name",
    "code_language",
    "language",
    "chunk_language",
    "page",
    "page_end",
    "line_start",
    "line_end",
    "heading_path",
    "chunk_index",
    "char_start",
    "char_end",
    "token_count",
    "text",
    "text_truncated",
    "stale",
    "explain",
]

SPI = """# Serial bus notes

## Choosing the divider

The clock divider of the SPI controller is computed from the peripheral clock and the highest rate of the slave.
It is rounded up to the next even number, because a divider that is too small would overclock the chip.

"""
BREAD = """# Chleb na zakwasie

Zakwas dokarmia się mąką żytnią i letnią wodą dzień przed pieczeniem. Ciasto wyrasta w koszyku przez noc,
a rano piecze się je w żeliwnym garnku pod przykryciem.
"""
FILLER = "Paragraph {0}: the enclosure has {0} screws, each is tightened by hand and then by a quarter turn more. "
CODE = """/* Blink a diode. */
#include <avr/io.h>

int main(void)
{
    DDRB |= 1 << PB5;   /* the pin is an output */
    for (;;)
        PORTB ^= 1 << PB5;
}
"""


@dataclass
class Index:
    """A home with an index that the tests of this module only read."""

    home: Home
    docs: Path


@pytest.fixture(scope="module")
def index(make_home: Callable[[], Home]) -> Index:
    home = make_home()
    docs = home.path / "docs"
    (docs / "en").mkdir(parents=True)
    filler = "\n\n".join(FILLER.format(number) * 4 for number in range(12))
    (docs / "en" / "spi.md").write_text(SPI + filler + "\n", encoding="utf-8")
    (docs / "chleb żytni.md").write_text(BREAD, encoding="utf-8")
    (docs / "blink.c").write_text(CODE)
    (docs / "a:7").mkdir()
    (docs / "a:7" / "odd:3").write_text("A path that looks like a line number is a path.\n")
    (docs / "a:7" / "odd:3").rename(docs / "a:7" / "odd.txt:3.txt")
    (docs / "program.txt").write_bytes(b"\x7fELF" + bytes(500))
    ran = home.ingest(docs, "--recursive", "-q")
    assert ran.code == 0, ran.stderr
    return Index(home, docs)


def test_a_question_finds_the_text_of_the_other_language_with_its_place(index: Index) -> None:
    ran = index.home.bigos("search", "jak wyznacza się dzielnik zegara magistrali SPI", "--json", "--top-k", "3")
    answer = ran.json
    assert (ran.code, ran.stderr) == (0, "")
    assert (answer["schema"], answer["language"]) == ("bigos.search.v1", "pl")
    best = answer["hits"][0]
    assert list(best) == HIT_FIELDS
    assert best["source_path"] == str(index.docs / "en" / "spi.md")
    assert best["heading_path"][:1] == ["Serial bus notes"]
    lines = (index.docs / "en" / "spi.md").read_text().splitlines()
    assert best["line_start"] <= 5 <= best["line_end"]
    assert lines[4] in best["text"]
    assert (best["rank"], best["page"], best["code_language"], best["explain"]) == (1, None, None, None)
    bread = index.home.process("search", "-", "--json", stdin="How is sourdough bread baked?\n").json
    assert bread["language"] == "en"
    assert bread["hits"][0]["source_name"] == "chleb żytni.md"
    assert bread["hits"][0]["chunk_language"] == "pl"


def test_explain_files_only_and_the_filters_shape_the_answer(index: Index) -> None:
    files = index.home.bigos("search", "screws", "of", "the", "enclosure", "--files-only", "--top-k", "20").stdout
    assert len(files.splitlines()) == len(set(files.splitlines())) == 4
    assert files.splitlines()[0] == str(index.docs / "en" / "spi.md")
    answer = index.home.bigos(
        "search", "screws", "--files-only", "--explain", "--json", "--path", index.docs / "en", "--max-chars", "80"
    ).json
    (hit,) = answer["hits"]
    assert hit["text_truncated"]
    assert len(hit["text"]) <= 80
    assert set(hit["explain"]) == {
        "query_language",
        "dense",
        "dense_score",
        "lexical",
        "lexical_score",
        "coverage",
        "fused",
    }
    assert hit["explain"]["dense"] == 1
    text = index.home.bigos("search", "dioda", "--kind", "code", "--explain").stdout
    assert f"[code/c] {index.docs}/blink.c:1-9" in text
    assert "dense #1" in text


def test_context_joins_the_neighbours_and_show_reads_by_id_line_and_whole(index: Index) -> None:
    spi = index.docs / "en" / "spi.md"
    one = index.home.bigos("search", "clock divider", "--top-k", "1", "--json").json["hits"][0]
    more = index.home.bigos("search", "clock divider", "--top-k", "1", "--context", "1", "--json").json["hits"][0]
    assert more["text"].startswith(one["text"])
    assert len(more["text"]) > len(one["text"])
    shown = index.home.bigos("show", one["chunk_id"], "--json").json
    assert shown["schema"] == "bigos.show.v1"
    (chunk,) = shown["chunks"]
    assert {key: chunk[key] for key in chunk} == {key: one[key] for key in chunk}
    everything = index.home.bigos("show", "~/docs/en/spi.md", "--all", "--json").json["chunks"]
    assert [item["chunk_index"] for item in everything] == list(range(len(everything)))
    last = everything[-1]
    at_line = index.home.bigos("show", f"docs/en/spi.md:{last['line_start']}-{last['line_end']}")
    assert at_line.stdout.startswith(f"[document/en] {spi}:{last['line_start']}")
    assert last["chunk_id"] in at_line.stdout.splitlines()[0]
    beyond = index.home.bigos("show", "docs/en/spi.md:999")
    assert beyond.stdout == at_line.stdout
    assert beyond.stderr == f"the text has no line 999; it ends at line {last['line_end']}.\n"
    assert at_line.stderr == ""
    assert index.home.bigos("show", "docs/a:7/odd.txt:3.txt").stdout.endswith("is a path.\n")


@pytest.mark.parametrize(
    ("args", "code", "message", "hint"),
    [
        (["search", "x", "--path", "nowhere"], 1, "is not indexed, and does not exist.", "without --path"),
        (["search", "x", "--path", "/usr"], 1, "nothing is indexed under /usr.", "bigos ingest /usr"),
        (["search", "   "], 2, "the query is empty.", "bigos search"),
        (["search", "x", "--top-k", "5000"], 2, "top_k must be from 1 to 1000", "--top-k 8"),
        (["search", "x", "--kind", "cod"], 2, "invalid choice: 'cod'", "did you mean code?"),
        (["show", "docs/program.txt"], 1, "skipped (binary)", "bigos ingest"),
        (["show", "docs/nothing.md:3"], 1, "is not indexed, and does not exist.", "bigos search"),
        (["show", "docs"], 1, "is a folder.", "--path"),
        (["show", "docs/blink.c:p2"], 2, "has no pages.", "bigos show"),
        (["show", "00000000-0000-0000-0000-000000000000"], 1, "no chunk has the id", "bigos search"),
        (["serach", "x"], 2, "invalid choice: 'serach'", "did you mean search?"),
        (["search", "x", "--jsn"], 2, "no option --jsn.", "did you mean --json?"),
    ],
)
def test_what_cannot_be_found_is_told_with_the_next_step(
    index: Index, args: list[str], code: int, message: str, hint: str
) -> None:
    ran = index.home.bigos(*args)
    assert (ran.code, ran.stdout) == (code, ""), ran.stderr
    assert message in ran.stderr
    assert hint in ran.stderr.partition("\nhint: ")[2]


def test_status_tells_counts_size_fit_and_drift_without_the_model(index: Index) -> None:
    changed = index.docs / "blink.c"
    changed.write_text(CODE + "\n/* changed */\n")
    ran = index.home.bigos("status", "--json", "-v")
    status = ran.json
    assert status["schema"] == "bigos.status.v1"
    assert status["by_status"] == {"indexed": 4, "skipped": 1}
    assert status["reasons"] == {"binary": 1}
    assert status["fits_configuration"] is True
    assert status["store"]["bytes"] > 0
    assert status["drift"]["changed"] == [str(changed)]
    assert (status["drift"]["deleted"], status["drift"]["new"]) == ([], None)
    assert "fits the configuration" in index.home.bigos("status").stdout


def test_a_fresh_machine_gets_answers_and_nothing_is_created(home: Home) -> None:
    status = home.bigos("status", "--json")
    assert (status.code, status.json["documents"], status.json["fingerprint"]) == (0, 0, None)
    search = home.bigos("search", "anything", "--json")
    assert (search.code, search.json["hits"]) == (1, [])
    assert "the index is empty.\nhint: bigos ingest FOLDER --recursive" in search.stderr
    doctor = home.bigos("doctor")
    assert doctor.code == 0, doctor.stdout
    assert "works" in doctor.stdout
    assert home.everything() == []


def test_help_and_version_are_quick_and_a_bare_command_is_a_usage_error(home: Home) -> None:
    version = home.process("--version")
    assert (version.code, version.stdout.split()[0]) == (0, "bigos")
    assert home.bigos("search", "--help").stdout.startswith("usage: bigos search")
    bare = home.process()
    assert (bare.code, bare.stdout) == (2, "")
    assert "usage: bigos" in bare.stderr
    heavy = ["numpy", "onnxruntime", "tokenizers", "lingua", "qdrant_edge", "rich", "mcp", "lxml", "pebble"]
    script = f"import sys, bigos.cli; bigos.cli.build_parser(); print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=home.environment())
    assert done.stdout == "[]\n", done.stderr


def test_status_opens_no_model(index: Index) -> None:
    script = (
        "import sys, bigos.cli; bigos.cli.main(['status'], sys.stderr, sys.stderr);"
        "print([n for n in ('onnxruntime', 'tokenizers', 'lingua') if n in sys.modules])"
    )
    env = index.home.environment()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert done.stdout == "[]\n", done.stderr


def test_polish_comes_out_as_utf_8_whatever_the_locale(index: Index) -> None:
    posix = {"LC_ALL": "POSIX", "LANG": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for options in (["--json"], []):
        ran = index.home.process("search", "pieczenie chleba", "--top-k", "1", *options, **posix)
        assert ran.code == 0
        assert "Zakwas dokarmia się mąką żytnią" in ran.stdout
        assert "\\u" not in ran.stdout
    drift = index.home.process("status", "--json", **posix).json["drift"]
    assert (drift["deleted"], drift["unreachable"]) == ([], [])


def test_a_reader_that_leaves_and_a_full_disk_behind_stdout_make_no_traceback(index: Index) -> None:
    command = f"'{sys.executable}' -m bigos.cli show docs/en/spi.md --all"
    for shell, code in ((f"{command} | true; exit ${{PIPESTATUS[0]}}", (0, 141)), (f"{command} > /dev/full", (4,))):
        done = subprocess.run(
            ["bash", "-c", shell], capture_output=True, text=True, env=index.home.environment(), cwd=index.home.path
        )
        assert done.returncode in code, done.stderr
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr
    assert done.stderr.startswith("error: the result cannot be written: No space left on device.\nhint: ")
    closed = subprocess.run(
        ["bash", "-c", f"{command} >&- 2>&-"], capture_output=True, env=index.home.environment(), cwd=index.home.path
    )
    assert closed.returncode == 0


def test_a_damaged_store_is_told_and_left_alone(index: Index, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(index.home.path / ".local" / "share" / "bigos", data)
    (segments,) = data.glob("collections/*/shard/segments")
    for file in segments.rglob("*"):
        if file.is_file():
            os.truncate(file, 7)
    before = sorted(data.rglob("*"))
    for args in (["search", "x"], ["status"], ["show", "docs/blink.c"]):
        ran = index.home.bigos(*args, BIGOS_DATA_DIR=str(data))
        assert (ran.code, ran.stdout) == (4, ""), ran.stderr
        assert "damaged" in ran.stderr
        assert "\nhint: mv " in ran.stderr
    assert sorted(data.rglob("*")) == before


def test_a_search_gives_up_when_its_time_is_over(index: Index) -> None:
    (lock,) = (index.home.path / ".local" / "share" / "bigos" / "collections").glob("*/lock")
    # A stranger that has the lock and does not look whether anybody waits.
    script = (
        f"import fcntl, time; f = open({str(lock)!r}); fcntl.flock(f, 2); print('has it', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        started = time.monotonic()
        ran = index.home.process("search", "x", "--timeout", "3")
        assert (ran.code, ran.stdout) == (4, "")
        assert ran.stderr == "error: no answer within 3 s.\nhint: try again, or with a longer --timeout\n"
        assert time.monotonic() - started < PATIENCE
    finally:
        holder.kill()
        holder.communicate()


def test_a_page_that_the_text_does_not_have_is_told_and_files_are_counted_as_files(home: Home) -> None:
    pot = home.path / "pot"
    pot.mkdir()
    shutil.copy(REPO / "tests" / "data" / "loaders" / "chleb.pdf", pot)
    for name in ("a.txt", "b.txt"):
        (pot / name).write_text(
            "\n\n".join(f"Bread {number} in {name}: flour, water, salt, time." for number in range(80))
        )
    assert home.ingest(pot).code == 0
    beyond = home.bigos("show", f"{pot / 'chleb.pdf'}:p99")
    assert (beyond.code, beyond.stderr) == (0, "the text has no page 99; it ends at page 2.\n")
    assert "pages count from 1" in home.bigos("show", f"{pot / 'chleb.pdf'}:p0").stderr
    assert home.bigos("show", f"{pot / 'chleb.pdf'}:p2").stderr == ""
    paths = home.bigos("search", "bread of flour and water", "--files-only", "--top-k", "2").stdout.splitlines()
    assert len(set(paths)) == 2
