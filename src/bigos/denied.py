# SPDX-License-Identifier: GPL-2.0-only
"""Files and folders that are never read because of their names: where keys, passwords and shell histories are kept.

A pattern is matched without regard to upper and lower case against the names of a path from its end: `*.pem` against
the last one, `.docker/config.json` against the last two; one that begins with `/` against the whole path. What a
denied folder holds is denied with it. A pattern of a wildcard and a plain word, without a dot (`*token*`, `id_*`), is
broad: it means files alone, and spares names with the extensions that the caller gives (token.c, tokenizer.py).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_DEFAULT = """
    .ssh .gnupg .pki .aws .azure .kube .oci .config/gcloud .config/gh .config/glab-cli .config/rclone .config/doctl
    .docker/config.json containers/auth.json .terraform.d/credentials* .vault-token .s3cfg .boto
    .env* *.pem *.key *.ppk *.p12 *.pfx *.jks *.keystore id_* credentials* .credentials* *token* *.tfvars
    .config/hub .config/sops .subversion/auth .purple/accounts.xml .m2/settings.xml .yarnrc.yml
    .password-store .local/share/password-store .config/Bitwarden* .config/1Password *.kdbx *.kdb *.agilekeychain
    *.opvault *.psafe3 .config/op .netrc _netrc .authinfo* .pgpass .my.cnf
    .mylogin.cnf .git-credentials .htpasswd .npmrc .pypirc .cargo/credentials* .gem/credentials etc/shadow etc/gshadow
    .local/share/keyrings .local/share/kwalletd *.keyring *.kwl Library/Keychains *.keychain *.keychain-db
    .mozilla .config/mozilla .librewolf .zen .waterfox .floorp .local/share/epiphany .local/share/falkon
    .local/share/qutebrowser .config/falkon .config/qutebrowser *config/yandex-browser* logins.json key3.db key4.db
    cookies.sqlite* snap/chromium
    *config/google-chrome* *config/chromium* *config/BraveSoftware *config/microsoft-edge* *config/vivaldi*
    *config/opera* Chrome/User?Data Edge/User?Data Application?Support/Google/Chrome Application?Support/Firefox
    .*_history .*_history-* .*_history.* .*_sessions fish_history ConsoleHost_history.txt .zhistory .histfile .history
    .lesshst .viminfo
"""
DENIED_PATTERNS: tuple[str, ...] = tuple(word.replace("?", " ") for word in _DEFAULT.split())
"""What the setting denied_patterns is unless somebody sets it."""

_WILDCARD = re.compile(r"\[!?\]?[^]]*\]|[*?]")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One pattern, taken apart: a regular expression for each name from the end, or one for the whole path."""

    pattern: str
    names: tuple[re.Pattern[str], ...]
    whole: bool
    broad: bool

    def holds(self, parts: Sequence[str]) -> bool:
        """Whether a path with these names, lower case, ends as the pattern says."""
        count = len(self.names)
        if len(parts) < count or (self.whole and len(parts) != count):
            return False
        return all(name.match(part) for name, part in zip(self.names, parts[-count:], strict=True))


def _rule(pattern: str) -> _Rule:
    bare = pattern.lower().rstrip("/").removeprefix("**/")
    names = tuple(re.compile(fnmatch.translate(name)) for name in bare.strip("/").split("/"))
    broad = bool(_WILDCARD.search(bare)) and "." not in bare and "/" not in bare
    return _Rule(pattern, names, bare.startswith("/"), broad)


class _Glance:
    """Tells from many names at once that none can be denied: the walk has very many, and few that are.

    Whole names are looked up in a set; what begins with a dot (`.env*`, `*.pem`) is one regular expression, which
    stops at dots alone; the rest are words to search for. `/` stands where a name begins or ends.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        lasts = [pattern.lower().rstrip("/").rpartition("/")[2] for pattern in patterns]
        self._whole = frozenset(name for name in lasts if not _WILDCARD.search(name))
        parts = {max(_WILDCARD.split(f"/{name}/"), key=len) for name in lasts if name not in self._whole}
        dotted = {part.removeprefix("/") for part in parts if part.startswith((".", "/."))}
        self._dotted = re.compile(
            r"\.(?:" + "|".join(re.escape(part[1:]) for part in dotted) + ")" if dotted else r"\Z."
        )
        self._words = tuple(part for part in parts if not part.startswith((".", "/.")))

    def sees(self, joined: str, names: Iterable[str]) -> bool:
        """Whether any of the names, joined and bounded by `/`, all lower case, may be denied."""
        if not self._whole.isdisjoint(names) or self._dotted.search(joined):
            return True
        return any(word in joined for word in self._words)


class Denied:
    """Patterns, ready to be asked of very many names."""

    def __init__(self, patterns: Iterable[str], spared: Iterable[str] = ()) -> None:
        """`spared` are extensions, lower case without the dot, that broad patterns do not hold for."""
        self._rules = tuple(_rule(pattern) for pattern in dict.fromkeys(patterns) if pattern.strip("/*"))
        self._spared = frozenset(spared)
        self._glance = _Glance(rule.pattern for rule in self._rules)

    def suspects(self, names: Sequence[str]) -> frozenset[str]:
        """Those of a folder's names that may be denied; nearly always none, which is told quickly."""
        joined = f"/{'/'.join(names)}/".lower()
        if not self._glance.sees(joined, joined.split("/")):
            return frozenset()
        return frozenset(name for name in names if self._glance.sees(f"/{name.lower()}/", (name.lower(),)))

    def pattern(self, path: str, *, is_folder: bool) -> str | None:
        """The pattern that denies a path by its own names, not by those of the folders above it; None without any."""
        return self._of(path.lower().strip("/").split("/"), is_folder=is_folder)

    def pattern_on_the_way(self, path: str, *, is_folder: bool) -> str | None:
        """The pattern that denies an absolute path or a folder that it lies in; None without any."""
        parts = path.lower().strip("/").split("/")
        for count in range(1, len(parts) + 1):
            found = self._of(parts[:count], is_folder=is_folder or count < len(parts))
            if found is not None:
                return found
        return None

    def _of(self, parts: list[str], *, is_folder: bool) -> str | None:
        # credentials.7.txt is a manual page.
        spared = is_folder or parts[-1].removesuffix(".txt").rpartition(".")[2] in self._spared
        for rule in self._rules:
            if not (rule.broad and spared) and rule.holds(parts):
                return rule.pattern
        return None
