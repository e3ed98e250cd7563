# SPDX-License-Identifier: GPL-2.0-only
"""Private keys and access tokens in a text, told by their shape: what must not be found by whoever may search.

A key is a whole block, whose body is one; its header alone stands in any manual. A token has a prefix that its issuer
gives nothing else, the right length, and is no placeholder. A signed token (JWT) tells by itself until when it is good,
and a manual's is not. Passwords have no shape and are not seen.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bigos.errors import DocumentError
from bigos.places import Places
from bigos.types import Document

HOLDS_A_SECRET = "holds a secret"
"""The reason of a file that is left out because of what is in its text."""

_BLOCK_MARK = re.compile(r"-{4,5} ?(BEGIN|END) ((?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?) ?-{4,5}")
_LONGEST_BLOCK = 200_000
_BLOCK_IN_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])LS0tLS1CRUdJTi[A-Za-z0-9+/]{60,300000}={0,2}")
"""What begins with "-----BEGIN ": how Kubernetes writes keys into its files."""
_SHORTEST_KEY = 60  # characters; an Ed25519 key takes 64
_SEVERAL_LINES = 130
_LINE_START = re.compile(r"^[ \t]*(?:(?://+|[#>*;|]+)[ \t])?", re.MULTILINE)
_HEADER_FIELD = re.compile(r"\b(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID): ?[^\n]*")
_BETWEEN = re.compile(r"\\[nrt]|[\s\"'\\]")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}(?:=[A-Za-z0-9+/]{4})?")
_BEGINNINGS = {"OPENSSH": "b3BlbnNzaC1rZXk", "PGP": "", "SSH2": "P2/56", "": "M"}  # M: a DER sequence
_PUTTY = re.compile(r"PuTTY-User-Key-File-[23]: [^\0]{1,3000}?Private-Lines: \d+\s+[A-Za-z0-9+/=\s]{60}")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
_NEAR = 500  # characters that an AWS key's two halves are apart at most
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{10,2000}\.eyJ[\w-]{10,8000}\.[\w-]{40,1400}(?![\w-])")
_SHOWN = re.compile(r"example|placeholder|123456|john ?doe|jane ?doe", re.IGNORECASE)
"""What the claims of a manual's token say."""
_FILLING = re.compile(r"(.)\1{5}|example|placeholder|redacted|your|123456|abcdef|xxxx", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Token:
    """One issuer's tokens. A text without any of the `marks` has none."""

    name: str
    marks: tuple[str, ...]
    shape: re.Pattern[str]


def _token(name: str, marks: str, shape: str) -> _Token:
    return _Token(name, tuple(marks.split()), re.compile(rf"(?<![A-Za-z0-9_]){shape}(?![A-Za-z0-9_])"))


_TOKENS = (
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36}"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token("GitLab token", "glpat- glrt- gldt- glptt-", r"gl(?:pat|rt|dt|ptt)-[\w-]{20,50}"),
    _token("Slack token", "xox", r"xox[abeoprs]-(?:\d+-)*[A-Za-z0-9-]{24,200}"),
    _token("Slack token", "xapp-", r"xapp-\d-[A-Z0-9]{8,14}-\d{8,16}-[a-f0-9]{64}"),
    _token("Slack webhook", "hooks.slack.com/services/T", r"hooks\.slack\.com/services/T\w{8,12}/B\w{8,12}/\w{24}"),
    _token("Google API key", "AIza", r"AIza[\w-]{35}"),
    _token("Google client secret", "GOCSPX-", r"GOCSPX-[\w-]{28}"),
    _token("Stripe key", "_live_", r"[sr]k_live_[A-Za-z0-9]{24,120}"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{50,250}"),
    _token("Azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    _token("OpenAI key", "T3BlbkFJ", r"sk-[\w-]{20,100}T3BlbkFJ[\w-]{20,100}"),
    _token("Anthropic key", "sk-ant-", r"sk-ant-[a-z]+\d\d-[\w-]{80,120}"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z]{34}"),
    _token("SendGrid key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    _token("DigitalOcean token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("Docker token", "dckr_pat_", r"dckr_pat_[\w-]{27}"),
    _token("Shopify token", "shpat_ shpss_ shpca_", r"shp(?:at|ss|ca)_[a-fA-F0-9]{32}"),
    _token("Vault token", "hvs.", r"hvs\.[\w-]{90,120}"),
    _token("Atlassian token", "ATATT3", r"ATATT3[\w=-]{150,250}"),
    _token("Azure client secret", "Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    _token("Databricks token", "dapi", r"dapi[a-f0-9]{32}"),
    _token("Figma token", "figd_", r"figd_[\w-]{40}"),
    _token("Google refresh token", "1//0", r"1//0[\w-]{80,120}"),
    _token("Grafana token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    _token("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    _token("Linear key", "lin_api_", r"lin_api_[A-Za-z0-9]{40}"),
    _token("New Relic key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    _token("Notion token", "ntn_", r"ntn_\d{11}[A-Za-z0-9]{35}"),
    _token("Pulumi token", "pul-", r"pul-[a-f0-9]{40}"),
    _token("RubyGems key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _token("Tailscale key", "tskey-", r"tskey-[a-z]{3,8}-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{20,48}"),
    _token("Telegram token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    _token("Terraform token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,70}"),
    _token("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
)
_AWS = _token("AWS key", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z2-7]{16}")
_AWS_NAMED = re.compile(
    r"(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|SecretAccessKey)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"(?P<half>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=_.-])"
)


def refuse_secrets(document: Document) -> None:
    """Raises DocumentError, skipped, that says where the first secret stands and of what kind it is, not what it is."""
    found = min(_secrets(document.text), default=None)
    if found is None:
        return
    position, name = found
    place = Places(document.blocks).of(document.text, position, position + 1)
    where = f"line {place.line_start}: " if place.line_start else f"page {place.page}: " if place.page else ""
    raise DocumentError(HOLDS_A_SECRET, where + name, skipped=True)


def _secrets(text: str) -> Iterator[tuple[int, str]]:
    """Where a secret stands and what it is: the first of each kind."""
    if "PRIVATE KEY" in text:
        yield from _private_key(text)
    if "LS0tLS1CRUdJTi" in text:
        for found in _BLOCK_IN_BASE64.finditer(text):
            whole = found[0][: len(found[0]) // 4 * 4]  # a piece of it may be all that is there
            inner = base64.b64decode(whole).decode("ascii", "replace")
            yield from ((found.start(), name) for _, name in _private_key(inner))
    if "PuTTY-User-Key-File-" in text and (putty := _PUTTY.search(text)):
        yield putty.start(), "private key"
    for token in _TOKENS:
        if any(mark in text for mark in token.marks):
            yield from ((found.start(), token.name) for found in token.shape.finditer(text) if _is_random(found[0]))
    if any(mark in text for mark in _AWS.marks):
        yield from ((found.start(), _AWS.name) for found in _AWS.shape.finditer(text) if _has_secret_near(text, found))
    if "SECRET_ACCESS_KEY" in text or "ecret" in text:
        yield from ((found.start(), _AWS.name) for found in _AWS_NAMED.finditer(text) if _is_half(found["half"]))
    if "eyJ" in text:
        yield from ((found.start(), "signed token (JWT)") for found in _JWT.finditer(text) if _is_good(found[0]))


def _is_random(token: str) -> bool:
    """Whether it looks drawn by lot, and not like what stands for a token in a manual."""
    return len(set(token)) >= 12 and not _FILLING.search(token)


def _has_secret_near(text: str, identifier: re.Match[str]) -> bool:
    """An AWS key's identifier is no secret without its other half."""
    if _FILLING.search(identifier[0]):
        return False
    near = text[max(0, identifier.start() - _NEAR) : identifier.end() + _NEAR]
    return any(_is_half(half[0]) for half in _AWS_SECRET.finditer(near))


def _is_half(text: str) -> bool:
    return _is_random(text) and not text.isalpha()


def _is_good(token: str) -> bool:
    """Whether a signed token lets somebody in: its time is not over, and it is not one that shows how they look.

    One that never ends has to say who issued it: what stands in manuals says as little as it can.
    """
    header, claims = (_decoded(part) for part in token.split(".")[:2])
    if header is None or claims is None or "alg" not in header or _SHOWN.search(json.dumps(claims)):
        return False
    until = claims.get("exp")
    return until > time.time() if isinstance(until, int | float) else "iss" in claims


def _decoded(part: str) -> dict[str, object] | None:
    """A part of a signed token; None when it is none."""
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _private_key(text: str) -> Iterator[tuple[int, str]]:
    keys: list[tuple[int, int]] = []
    shortened = False
    for start, label, body in _blocks(text):
        shortened = shortened or "..." in body or "…" in body
        length = _key_length(label, body)
        if length:
            keys.append((start, length))
    # A manual that shows some keys shortened may show the smallest ones whole.
    yield from ((start, "private key") for start, length in keys if length >= _SEVERAL_LINES or not shortened)


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Where each block of a private key begins, its label, and what is between its two marks."""
    begun: re.Match[str] | None = None
    for mark in _BLOCK_MARK.finditer(text):
        if mark[1] == "BEGIN":
            begun = mark
        elif begun is not None and begun[2] == mark[2]:
            if mark.start() - begun.end() <= _LONGEST_BLOCK:
                yield begun.start(), mark[2], text[begun.end() : mark.start()]
            begun = None


def _key_length(label: str, body: str) -> int:
    """The characters of the key in a block, however it is quoted: in a comment, in a string, on one line. 0: none."""
    bare = _BETWEEN.sub("", _LINE_START.sub("", _HEADER_FIELD.sub("", body)))
    if len(bare) < _SHORTEST_KEY or not _BASE64.fullmatch(bare) or len(set(bare)) < 20:
        return 0
    kind = next((kind for kind in _BEGINNINGS if kind in label), "")
    return len(bare) if "DEK-Info" in body or bare.startswith(_BEGINNINGS[kind]) else 0
