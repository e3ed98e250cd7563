# SPDX-License-Identifier: GPL-2.0-only
"""`bigos ingest --forget` as a person runs it."""

from __future__ import annotations

import random

from command_line import Home

NOTE = "The watchdog is fed every two seconds; when the main loop hangs, the board resets and writes the cause down.\n"


def test_forgotten_text_is_found_no_more_and_the_answer_says_what_went(home: Home) -> None:
    notes = home.path / "notes"
    notes.mkdir()
    (notes / "dog.txt").write_text(NOTE)
    (notes / "cat.txt").write_text("A cat sleeps on the warm roof all day long and comes down in the evening to eat.\n")
    assert home.ingest(notes).code == 0
    dry = home.ingest("--forget", "--dry-run", notes / "dog.txt")
    assert (dry.code, dry.stdout.splitlines()[0]) == (
        0,
        "dry run, nothing was removed. To forget: 1 documents, 1 chunks",
    )
    ran = home.ingest("--forget", "--json", notes / "dog.txt")
    report = ran.json
    assert (ran.code, report["schema"]) == (0, "bigos.ingest.v1")
    assert (report["files"]["forgotten"], report["chunks"]["removed"]) == (1, 1)
    assert [(item["path"], item["outcome"]) for item in report["outcomes"]] == [(str(notes / "dog.txt"), "forgotten")]
    hits = home.bigos("search", "what happens when the main loop hangs", "--json").json["hits"]
    assert [hit["source_name"] for hit in hits] == ["cat.txt"]
    again = home.ingest("--forget", notes / "dog.txt")
    assert (again.code, again.stdout) == (1, "")
    assert again.stderr == f"nothing is indexed under {notes / 'dog.txt'}.\nhint: bigos status\n"
    for name in ("cat.txt", "dog.txt"):
        (notes / name).unlink()
    notes.rmdir()
    gone = home.ingest("--forget", notes)
    assert (gone.code, gone.stdout) == (0, f"Forgotten: 1 documents, 1 chunks\n  {notes / 'cat.txt'}\n")


def test_forgetting_needs_no_model_and_reads_no_files(home: Home) -> None:
    (home.path / "dog.txt").write_text(NOTE)
    assert home.ingest("dog.txt").code == 0
    assert home.ingest("--forget", "dog.txt", BIGOS_MODELS_DIR=str(home.path / "none")).code == 0
    ran = home.ingest("--forget", "--reindex", "dog.txt")
    assert (ran.code, ran.stdout) == (2, "")
    assert "hint: the same command without --reindex" in ran.stderr
    options = ("--retry-failed", "--no-ignore", "--ocr", "never", "--max-files", "1", "--prune", "--include", "*.md")
    ran = home.ingest("--forget", *options, "dog.txt")
    assert (ran.code, ran.stdout) == (2, "")
    for option in options:
        assert not option.startswith("--") or option in ran.stderr
    ran = home.ingest("--forget", "no\x1b[31m\nsuch\tname")
    assert (ran.code, ran.stderr) == (
        1,
        "nothing is indexed under no\\x1b[31m\\x0asuch\\x09name.\nhint: bigos status\n",
    )


def test_what_was_left_out_unread_is_forgotten_with_the_rest(home: Home) -> None:
    pot = home.path / "pot"
    pot.mkdir()
    (pot / "dog.txt").write_text(NOTE)
    (pot / "program.md").write_bytes(bytes(2000))
    (pot / "empty.txt").write_text("")
    assert home.ingest(pot).code == 0
    ran = home.ingest("--forget", "--json", pot)
    assert (ran.code, ran.json["files"]["forgotten"], ran.json["chunks"]["removed"]) == (0, 3, 1)
    assert home.bigos("status", "--json").json["by_status"] == {}


def test_no_byte_of_what_was_forgotten_is_left_in_the_home(home: Home) -> None:
    word = "".join(random.SystemRandom().sample([chr(number) for number in range(0x4E00, 0x9FA0)], 12))
    pot = home.path / "pot"
    pot.mkdir()
    (pot / "dog.txt").write_text(NOTE)
    (pot / "secret.md").write_text(f"# Diary\n\nNobody may know of {word}.\n")

    def holders() -> list[str]:
        files = (path for path in home.path.rglob("*") if path.is_file() and pot not in path.parents)
        return [str(path) for path in files if word.encode() in path.read_bytes()]

    assert home.ingest(pot).code == 0
    assert home.bigos("search", word).code == 0
    assert holders()
    ran = home.ingest("--forget", "--json", pot / "secret.md")
    assert (ran.code, ran.json["files"]["forgotten"], ran.json["remains"]) == (0, 1, None)
    assert holders() == []
    hits = home.bigos("search", word, "--json").json["hits"]
    assert [hit["source_name"] for hit in hits] == ["dog.txt"]
    # A word that another file still has is found there, and only there.
    assert home.ingest(pot).code == 0
    (pot / "secret.md").unlink()
    (pot / "copy.md").write_text(f"Nobody may know of {word}.\n")
    assert home.ingest(pot).code == 0
    assert home.ingest("--forget", pot / "secret.md").code == 0
    hits = home.bigos("search", word, "--json").json["hits"]
    assert [hit["source_name"] for hit in hits if word in hit["text"]] == ["copy.md"]


def test_an_empty_path_is_not_the_current_folder(home: Home) -> None:
    (home.path / "dog.txt").write_text(NOTE)
    assert home.ingest("dog.txt").code == 0
    for words in (["--forget", ""], [""]):
        ran = home.ingest(*words)
        assert (ran.code, ran.stdout) == (2, "")
        assert "a path is empty" in ran.stderr
    assert home.bigos("status", "--json").json["documents"] == 1
