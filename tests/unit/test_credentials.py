# SPDX-License-Identifier: GPL-2.0-only
"""Keys and tokens in a text are seen by their shape; manuals that show what one looks like are not taken for one.

No whole token stands in this file: each is put together here, from its prefix and a generator's letters.
"""

from __future__ import annotations

import base64
import json
import random
import string
import time
from pathlib import Path

import pytest

from bigos import loaders
from bigos.credentials import HOLDS_A_SECRET, refuse_secrets
from bigos.errors import DocumentError
from bigos.types import SourceFile

LOTS = random.Random(6)
LETTERS = string.ascii_letters + string.digits
DASHES = "-" * 5


def drawn(count: int, alphabet: str = LETTERS) -> str:
    """Characters drawn by lot, like an issuer's."""
    return "".join(LOTS.choices(alphabet, k=count))


def pem(label: str, first: bytes, size: int, *, fields: str = "", width: int = 64) -> str:
    """A block as the tools write it: its first bytes, then `size` drawn ones."""
    body = base64.b64encode(first + LOTS.randbytes(size)).decode()
    lines = [body[start : start + width] for start in range(0, len(body), width)]
    return "\n".join(
        (f"{DASHES}BEGIN {label}{DASHES}", *([fields] if fields else []), *lines, f"{DASHES}END {label}{DASHES}")
    )


RSA = pem("RSA PRIVATE KEY", b"\x30\x82\x04\xa4", 1192)
ED25519 = pem("PRIVATE KEY", bytes.fromhex("302e020100300506032b657004220420"), 32)
KEYS = {
    "rsa": RSA,
    "pkcs8": pem("PRIVATE KEY", b"\x30\x82\x04\xbe", 1214),
    "ed25519": ED25519,
    "ec": pem("EC PRIVATE KEY", b"\x30\x77\x02\x01", 117),
    "encrypted": pem("ENCRYPTED PRIVATE KEY", b"\x30\x82\x05\x0e", 1292),
    "old encryption": pem("RSA PRIVATE KEY", b"", 1200, fields="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,7A0C\n"),
    "openssh": pem("OPENSSH PRIVATE KEY", b"openssh-key-v1\0\0\0\0\4none", 380, width=70),
    "pgp": pem("PGP PRIVATE KEY BLOCK", b"\x95", 700, fields="Comment: mine\n").replace(
        f"\n{DASHES}END", f"\n=aB3d\n{DASHES}END"
    ),
    "putty": f"PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nPublic-Lines: 1\n{drawn(64)}\nPrivate-Lines: 2\n"
    f"{drawn(64)}\n{drawn(64)}\n",
}


def jwt(claims: dict[str, object], **header: str) -> str:
    """A token with these claims, signed by nobody."""
    parts = (json.dumps({"alg": "RS256"} | header).encode(), json.dumps(claims).encode(), LOTS.randbytes(64))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits
FAR = 95_617_584_000
"""A moment in the year 5000, in seconds since 1970."""
TOKENS = {
    "GitHub token": [f"ghp_{drawn(36)}", f"ghs_{drawn(36)}", f"github_pat_{drawn(22)}_{drawn(59)}"],
    "GitLab token": [f"glpat-{drawn(20)}"],
    "Slack token": [
        f"xoxb-{drawn(12, string.digits)}-{drawn(12, string.digits)}-{drawn(24)}",
        f"xapp-1-A{drawn(10, CAPITALS)}-{drawn(13, string.digits)}-{drawn(64, HEX)}",
    ],
    "Atlassian token": [f"ATATT3xFfGF0{drawn(170)}=1A2B3C4D"],
    "Azure client secret": [f"{drawn(3)}8Q~{drawn(34)}"],
    "Databricks token": [f"dapi{drawn(32, HEX)}"],
    "Figma token": [f"figd_{drawn(40)}"],
    "Google refresh token": [f"1//0{drawn(99)}"],
    "Grafana token": [f"glsa_{drawn(32)}_{drawn(8, HEX)}"],
    "Groq key": [f"gsk_{drawn(52)}"],
    "Linear key": [f"lin_api_{drawn(40)}"],
    "New Relic key": [f"NRAK-{drawn(27, CAPITALS)}"],
    "Notion token": [f"ntn_{drawn(11, string.digits)}{drawn(35)}"],
    "Pulumi token": [f"pul-{drawn(40, HEX)}"],
    "RubyGems key": [f"rubygems_{drawn(48, HEX)}"],
    "Tailscale key": [f"tskey-auth-{drawn(12)}CNTRL-{drawn(32)}"],
    "Telegram token": [f"{drawn(10, string.digits)}:AA{drawn(33)}"],
    "Terraform token": [f"{drawn(14)}.atlasv1.{drawn(67)}"],
    "signed token (JWT)": [
        jwt({"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:heron"}, kid=drawn(20)),
        jwt({"sub": "heron", "exp": FAR}, typ="JWT"),
    ],
    "Slack webhook": [f"https://hooks.slack.com/services/T{drawn(8)}/B{drawn(8)}/{drawn(24)}"],
    "Google API key": [f"AIza{drawn(35)}"],
    "Google client secret": [f"GOCSPX-{drawn(28)}"],
    "Stripe key": [f"sk_live_{drawn(24)}", f"rk_live_{drawn(99)}"],
    "npm token": [f"npm_{drawn(36)}"],
    "PyPI token": [f"pypi-AgEIcHlwaS5vcmc{drawn(140)}"],
    "Azure storage key": [f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={drawn(86)}==;EndpointSuffix=x"],
    "OpenAI key": [f"sk-{drawn(20)}T3BlbkFJ{drawn(20)}", f"sk-proj-{drawn(74)}T3BlbkFJ{drawn(74)}"],
    "Anthropic key": [f"sk-ant-api03-{drawn(93)}AA"],
    "Hugging Face token": [f"hf_{drawn(34, string.ascii_letters)}"],
    "SendGrid key": [f"SG.{drawn(22)}.{drawn(43)}"],
    "DigitalOcean token": [f"dop_v1_{drawn(64, '0123456789abcdef')}"],
    "Docker token": [f"dckr_pat_{drawn(27)}"],
    "Shopify token": [f"shpat_{drawn(32, '0123456789abcdef')}"],
    "Vault token": [f"hvs.{drawn(95)}"],
    "age key": [f"AGE-SECRET-KEY-1{drawn(58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L')}"],
    "AWS key": [
        f"aws_access_key_id = AKIA{drawn(16, 'ABCDEFGHIJK234567')} aws_secret_access_key = {drawn(38)}+9",
        f"export AWS_SECRET_ACCESS_KEY={drawn(38)}/7",
        f'"SecretAccessKey": "{drawn(38)}+1"',
    ],
}


def secret_in(text: str, name: str = "notes.txt") -> str | None:
    """What is said of a file with this text; None when it may be indexed."""
    source = SourceFile(Path("/docs") / name, len(text), 0, 0)
    document = loaders.load_document(source, text.encode(), "0" * 32)
    try:
        refuse_secrets(document)
    except DocumentError as refusal:
        assert refusal.skipped
        assert refusal.reason == HOLDS_A_SECRET
        return refusal.message
    return None


@pytest.mark.parametrize("kind", KEYS)
def test_a_private_key_is_seen_and_its_line_is_told(kind: str) -> None:
    assert secret_in(f"My keys\n\n{KEYS[kind]}\n\nand so on\n") == "line 3: private key"


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a.sh", "\n".join(f"# {line}" for line in RSA.splitlines())),
        ("a.c", "char key[] =\n" + "\n".join(f'    "{line}\\n"' for line in RSA.splitlines()) + ";"),
        ("a.py", f"KEY = {RSA!r}"),
        ("a.yaml", "key: |\n" + "\n".join(f"  {line}" for line in RSA.splitlines())),
        ("kubeconfig.yaml", f"users:\n- user:\n    client-key-data: {base64.b64encode(RSA.encode()).decode()}\n"),
        ("a.json", '{"key": "' + RSA.replace("\n", "\\n") + '"}'),
        ("a.html", "<html><body><p>A key: " + RSA.replace("\n", " ") + "</p></body></html>"),
        ("a.md", "> " + RSA.replace("\n", "\r\n> ")),
    ],
)
def test_a_private_key_is_seen_however_it_is_quoted(name: str, quoted: str) -> None:
    assert "private key" in (secret_in(f"{quoted}\n", name) or "")


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in TOKENS.items() for text in texts])
def test_a_token_is_seen_and_not_repeated(kind: str, text: str) -> None:
    told = secret_in(f"first line\nthe value is: {text}\n")
    assert told == f"line 2: {kind}"
    assert secret_in(f"x = '{text}'", "a.py") == f"line 1: {kind}"


MANUALS = {
    "header": f"It begins with {DASHES}BEGIN EC PRIVATE KEY{DASHES} and ends with {DASHES}END EC PRIVATE KEY{DASHES}.",
    "dots": f"{DASHES}BEGIN PRIVATE KEY{DASHES}\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDc4Qusg\n...\n"
    f"{DASHES}END PRIVATE KEY{DASHES}",
    "words": f"{DASHES}BEGIN PRIVATE KEY{DASHES}\nyour key goes here, in base64, which takes twenty lines\n"
    f"{DASHES}END PRIVATE KEY{DASHES}",
    "one letter": f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n{'M' * 200}\n{DASHES}END PRIVATE KEY{DASHES}",
    "public": RSA.replace("RSA PRIVATE", "PUBLIC"),
    "certificate in base64": base64.b64encode(RSA.replace("RSA PRIVATE KEY", "CERTIFICATE").encode()).decode(),
    "cut base64": " ".join(base64.b64encode(RSA.encode()).decode()[:length] for length in range(100, 105)),
    "without end": RSA.rpartition("\n")[0],
    "one of several": f"{ED25519}\n{DASHES}BEGIN PRIVATE KEY{DASHES}\nMIIEvQ\n...\n{DASHES}END PRIVATE KEY{DASHES}",
    "github": "ghp_" + "x" * 36,
    "github too": "github_pat_" + "A" * 22 + "_" + "A" * 59,
    "aws": "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws id": f"AKIA{drawn(16, 'ABCDEFGHIJK234567')} is an id, {drawn(40, 'abcdef0123456789')[:39]} is a commit",
    "slack": "xoxb-your-token-goes-here-and-not-elsewhere",
    "stripe": "sk_live_... and sk_test_" + drawn(24),
    "aws name": f"aws_secret_access_key = {'*' * 40} or {drawn(40)}; aws_secret_access_key=self.aws.key",
    "aws config": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "jwt of a manual": jwt({"some": "payload"}) + " " + jwt({"sub": "1234567890", "name": "John Doe", "exp": FAR}),
    "jwt of the past": jwt({"iss": "heron", "exp": 1_300_819_380}),
    "jwt of nobody": jwt({"iss": "https://login.example.com", "exp": FAR}),
    "no jwt": f"eyJ{drawn(40)}.eyJ{drawn(40)}.{drawn(43)}",
    "prefix": "ghp_ AIza sk-ant- glpat- npm_config_cache hf_hub_download",
    "longer word": f"my{TOKENS['GitHub token'][0]} {TOKENS['npm token'][0]}more",
}


@pytest.mark.parametrize("kind", MANUALS)
def test_what_shows_how_a_secret_looks_is_none(kind: str) -> None:
    assert secret_in(f"{MANUALS[kind]}\n") is None


def test_hostile_texts_take_no_longer_than_others() -> None:
    marks = (
        f"{DASHES}BEGIN {'A ' * 4}PRIVATE KEY",
        f"{DASHES}BEGIN PRIVATE KEY{DASHES}",
        "ghp_",
        "AKIA" + "A" * 16,
        "-" * 9,
        "eyJ",
        "eyJ" + "a" * 20 + ".",
        "LS0tLS1CRUdJTi",
        "LS0tLS1CRUdJTi" + "A" * 70 + " ",
        jwt({"a": 1}).rpartition(".")[0] + ".",
        "aws_secret_access_key = ",
    )
    putty = "PuTTY-User-Key-File-3: Private-Lines: 1 "
    times = []
    for text in (*(mark * (500_000 // len(mark)) for mark in (*marks, putty)), drawn(40) * 12_500):
        started = time.process_time()
        assert secret_in(text[:500_000].replace("\0", " "), "a.md") is None
        times.append(time.process_time() - started)
    assert max(times) < 5
