# SPDX-License-Identifier: GPL-2.0-only
"""Names that are never read: keys, passwords and histories are known by them, source code is not taken for one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigos import admission
from bigos.config import load_config
from bigos.denied import DENIED_PATTERNS, Denied
from bigos.errors import UsageError
from bigos.files import LeftOut, walk
from bigos.own import own_places

DEFAULT = admission.denied(load_config({"HOME": "/home/ala"}))


def left_out(root: Path, **options: object) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Found files and {left-out path: (reason, detail)}, relative to the root."""
    left: list[LeftOut] = []
    found = walk([root], recursive=True, on_left_out=left.append, **{"denied": DEFAULT} | options)  # type: ignore[arg-type]
    base = root.resolve()
    names = [os.path.relpath(item.path, base) for item in found]
    return names, {os.path.relpath(item.path, base): (item.reason, item.detail) for item in left}


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".ssh/id_rsa",
            ".ssh/config",
            "old/.ssh/known_hosts",
            ".gnupg/secring.gpg",
            ".aws/credentials",
            ".kube/config",
        ),
        *(
            ".docker/config.json",
            ".env",
            ".env.local",
            ".envrc",
            "server.pem",
            "SERVER.KEY",
            "id_ed25519",
            "id_rsa.pub",
        ),
        *(".password-store/bank.gpg", "vault.kdbx", ".netrc", ".pgpass", ".git-credentials", ".config/gh/hosts.yml"),
        *(".mozilla/firefox/x.default/prefs.js", ".config/google-chrome/Default/Preferences", ".config/chromium/x/y"),
        *(".config/BraveSoftware/Brave-Browser/x", "snap/chromium/common/chromium/x", "x/logins.json", "x/key4.db"),
        *(".local/share/keyrings/login.keyring", "credentials", "credentials.json", "credentials.csv", "api-token"),
        *("GITHUB_TOKEN.txt", "tokens.yaml", "token.json", "id_card.docx", ".bash_history", ".zsh_history"),
        *(
            ".bash_history-01234.tmp",
            ".zsh_history.bak",
            ".zsh_sessions/x.history",
            ".config/mozilla/firefox/x/prefs.js",
        ),
        *(".local/share/password-store/bank.gpg", ".config/hub", ".subversion/auth/svn.simple/0f", ".m2/settings.xml"),
        *(".python_history", ".psql_history", "fish_history", "etc/shadow", "token.config", "credentials.toml"),
    ],
)
def test_where_secrets_are_kept_is_denied(path: str) -> None:
    assert DEFAULT.pattern_on_the_way(f"/home/ala/{path}", is_folder=False) in DENIED_PATTERNS


@pytest.mark.parametrize(
    "path",
    [
        *("tokenizer.py", "token.rs", "id_table.c", "id_map.h", "credentials.go", "src/tokens/lexer.l", "useToken.tsx"),
        *("tokenizer/model.txt", "id_cards/a.txt", "credentials/README", "docs/api-tokens.md", "token-ring.pdf"),
        *(
            "man3/id_t.3",
            "man7/credentials.7",
            "credentials.7.txt",
            "config.json",
            "history.txt",
            "company_history.txt",
        ),
        *("keys.txt", "key.c", "environment.txt", "shadow/README", "chromium/notes.txt", "firefox.md", "ssh/config.md"),
        *("token.c", "credentials.c", "keys.md", "id_generator.py", "id_table.dtsi", "tokens.css", "Token.java"),
        *("docs/credentials.rst", "use_tokens.bbclass", "token.proto", "m2/settings.xml", "project_history.md"),
        *("monkey.txt", "idea.txt", "passwd.1", "hockey", "pem.txt", "keyboard.key.md", "id.txt"),
    ],
)
def test_source_code_and_what_is_written_to_be_read_is_not(path: str) -> None:
    assert DEFAULT.pattern_on_the_way(f"/home/ala/{path}", is_folder=False) is None


def test_a_denied_folder_is_told_once_and_not_entered(tmp_path: Path) -> None:
    for name in (".ssh/id_rsa", ".ssh/deep/config", "notes.txt", "token.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert left_out(tmp_path) == (["notes.txt"], {".ssh": ("denied", ".ssh"), "token.txt": ("denied", "*token*")})


@pytest.mark.parametrize("root", [".ssh", ".ssh/deep", ".ssh/id_rsa", "plain", "to_key"])
def test_a_root_in_a_denied_folder_is_refused_whatever_leads_there(tmp_path: Path, root: str) -> None:
    (tmp_path / ".ssh" / "deep").mkdir(parents=True)
    (tmp_path / ".ssh" / "id_rsa").write_text("key")
    (tmp_path / ".ssh" / "deep" / "notes.txt").write_text("notes")
    (tmp_path / "plain").symlink_to(".ssh")
    (tmp_path / "to_key").symlink_to(".ssh/id_rsa")
    found, left = left_out(tmp_path / root)
    assert found == []
    assert left == {".": ("denied", ".ssh")}


def test_a_link_inside_the_tree_does_not_lead_to_what_is_denied(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("secret")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "harmless.txt").symlink_to(".ssh/config")
    (tmp_path / "folder").symlink_to(".ssh")
    (tmp_path / ".env").symlink_to("a.txt")
    found, left = left_out(tmp_path)
    assert found == ["a.txt"]
    assert {name: reason for name, (reason, _) in left.items()} == dict.fromkeys(
        (".ssh", ".env", "harmless.txt", "folder"), "denied"
    )
    assert left["harmless.txt"][1] == f".ssh: to {tmp_path.resolve()}/.ssh/config"


def test_the_setting_replaces_the_list_and_an_empty_one_turns_it_off(tmp_path: Path) -> None:
    for name in ("token.txt", "diary.txt", "private/a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    other = admission.denied(load_config({"HOME": str(tmp_path), "BIGOS_DENIED_PATTERNS": "Diary.*:~/private"}))
    assert left_out(tmp_path, denied=other)[0] == ["token.txt"]
    none = admission.denied(load_config({"HOME": str(tmp_path), "BIGOS_DENIED_PATTERNS": ""}))
    assert left_out(tmp_path, denied=none)[0] == ["diary.txt", "token.txt", "private/a.txt"]


GLOBS = st.text("ab.*?[]!/x", min_size=1, max_size=8)
LETTERS = st.text("abAB.x[]!ąŁ", min_size=1, max_size=6)


@given(st.lists(GLOBS, min_size=1, max_size=4), st.lists(LETTERS, min_size=1, max_size=6))
def test_the_quick_look_at_a_folder_misses_no_denied_name(patterns: list[str], names: list[str]) -> None:
    denied = Denied(patterns)
    hit = {name for name in names if denied.pattern(f"/a/b/{name}", is_folder=True) is not None}
    hit |= {name for name in names if denied.pattern(f"/a/b/{name}", is_folder=False) is not None}
    assert hit <= denied.suspects(names)


def test_no_walk_enters_what_bigos_keeps_for_itself(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "BIGOS_CONFIG": str(tmp_path / "bigos.toml"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    (tmp_path / "bigos.toml").write_text('qdrant_api_key = "secret"\nmodels_dir = "/nowhere/models"\n')
    config = load_config(env)
    for folder in (config.data_dir / "collections", config.cache_dir, config.state_dir):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("ours")
    (tmp_path / "notes.txt").write_text("theirs")
    (tmp_path / "link.txt").symlink_to(config.cache_dir / "a.txt")
    found, left = left_out(tmp_path, own=own_places(config))
    assert found == ["notes.txt"]
    assert left == {
        ".local/share/bigos": ("Bigos's own", "data_dir"),
        ".local/state/bigos": ("Bigos's own", "state_dir"),
        ".cache/bigos": ("Bigos's own", "cache_dir"),
        "bigos.toml": ("Bigos's own", "configuration"),
        "link.txt": ("Bigos's own", "cache_dir"),
    }
    for root in (config.data_dir, config.cache_dir / "a.txt", tmp_path / "bigos.toml", tmp_path / "link.txt"):
        with pytest.raises(UsageError, match=r"Bigos's own .*, which is never indexed"):
            left_out(root, own=own_places(config))
