# SPDX-License-Identifier: GPL-2.0-only
"""Which names are source code, and in what language: the one table to extend.

Keys of EXTENSIONS are lower case without the dot; NAMES are exact file names; NAME_GLOBS are tried when the extension
says nothing, or no more than an ordinary word does (WORDS); INTERPRETERS are the programs of a #! line without version
digits. Names that a user's configuration adds come before all of these, see `configured`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from bigos.errors import ConfigError


def _table(*rows: tuple[str, str]) -> dict[str, str]:
    return {word: language for language, words in rows for word in words.split()}


EXTENSIONS = _table(
    ("c", "c h"),
    ("cpp", "cpp cc cxx c++ hpp hh hxx h++ ipp tpp inl ino"),
    ("csharp", "cs"),
    ("python", "py pyi pyx pxd pyw"),
    ("shell", "sh bash zsh ksh dash ash fish bats csh tcsh"),
    ("powershell", "ps1 psm1"),
    ("batch", "bat"),
    ("bitbake", "bb bbappend bbclass inc"),
    ("make", "mk mak make"),
    ("cmake", "cmake"),
    ("meson", "meson"),
    ("rust", "rs"),
    ("go", "go"),
    ("verilog", "v vh"),
    ("systemverilog", "sv svh svi"),
    ("vhdl", "vhd vhdl vho"),
    ("devicetree", "dts dtsi dtso its"),
    ("acpi", "asl dsl"),
    ("asm", "s asm nasm"),
    ("linkerscript", "lds ld icf"),
    ("cuda", "cu cuh"),
    ("shader", "glsl vert frag geom comp hlsl wgsl"),
    ("objc", "m mm"),
    ("fortran", "f90 f95 f03 f08"),
    ("ada", "adb ads"),
    ("dart", "dart"),
    ("yaml", "yaml yml core"),
    ("toml", "toml"),
    ("ini", "ini cfg conf cnf properties desktop"),
    ("json", "json json5 jsonc"),
    ("java", "java"),
    ("kotlin", "kt kts"),
    ("groovy", "groovy gradle"),
    ("scala", "scala"),
    ("swift", "swift"),
    ("javascript", "js mjs cjs jsx"),
    ("typescript", "ts mts cts tsx"),
    ("css", "css scss sass less"),
    ("php", "php"),
    ("ruby", "rb rake gemspec"),
    ("perl", "pl pm"),
    ("lua", "lua"),
    ("tcl", "tcl xdc sdc qsf qip upf"),
    ("pinout", "pcf lpf ucf cst"),
    ("coccinelle", "cocci"),
    ("awk", "awk"),
    ("sql", "sql"),
    ("protobuf", "proto"),
    ("dockerfile", "dockerfile containerfile"),
    (
        "systemd",
        "service socket timer mount automount target path slice scope network netdev link container volume swap nspawn",
    ),
    ("udev", "rules"),
    ("patch", "patch diff"),
    ("env", "env"),
    ("m4", "m4 ac"),
    ("yacc", "y yy"),
    ("lex", "l ll"),
    ("haskell", "hs"),
    ("ocaml", "ml mli"),
    ("erlang", "erl hrl"),
    ("elixir", "ex exs"),
    ("lisp", "el lisp scm clj"),
    ("r", "r"),
    ("julia", "jl"),
    ("zig", "zig"),
    ("nix", "nix"),
    ("graphql", "graphql gql"),
    ("terraform", "tf tfvars"),
    ("vim", "vim"),
    ("kconfig", "kconfig config"),
    ("starlark", "bzl star bazel"),
    ("gn", "gn gni"),
    ("wks", "wks"),
    ("qml", "qml"),
    ("vue", "vue svelte"),
)

WORDS = frozenset(("systemd", "udev", "kconfig", "env", "ini", "shader"))
"""Languages whose extensions are ordinary words: in Makefile.target the rest of the name says more."""

NAMES = _table(
    ("make", "Makefile makefile GNUmakefile Kbuild Makefile.am Makefile.in Makefile.inc"),
    ("kconfig", "Kconfig Config.in .config"),
    ("dockerfile", "Dockerfile Containerfile"),
    ("cmake", "CMakeLists.txt"),
    ("meson", "meson.build meson_options.txt meson.options"),
    ("python", "SConstruct SConscript wscript"),
    ("ruby", "Rakefile Gemfile Vagrantfile"),
    ("starlark", "BUILD WORKSPACE"),
    ("just", "Justfile justfile"),
    ("vim", ".vimrc vimrc"),
    ("groovy", "Jenkinsfile"),
    ("shell", ".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv PKGBUILD APKBUILD"),
    ("ini", ".gitconfig .gitmodules .editorconfig .npmrc .pylintrc .flake8 .style.yapf"),
    ("yaml", ".clang-format .clang-tidy .yamllint"),
    ("env", ".env"),
    ("lua", ".luacheckrc"),
)

NAME_GLOBS = (
    ("Makefile*", "make"),
    ("GNUmakefile*", "make"),
    ("Kbuild*", "make"),
    ("Kconfig*", "kconfig"),
    ("*_defconfig", "kconfig"),
    ("defconfig*", "kconfig"),
    ("config-[0-9]*", "kconfig"),
    ("Dockerfile[.-]*", "dockerfile"),
    ("Containerfile[.-]*", "dockerfile"),
    (".env.*", "env"),
)

INTERPRETERS = _table(
    ("shell", "sh bash dash ash zsh ksh fish busybox openrc-run"),
    ("python", "python pypy"),
    ("perl", "perl"),
    ("ruby", "ruby"),
    ("javascript", "node nodejs deno bun"),
    ("lua", "lua luajit"),
    ("tcl", "tclsh wish expect"),
    ("awk", "awk gawk mawk nawk"),
    ("php", "php"),
    ("make", "make"),
    ("groovy", "groovy"),
    ("r", "Rscript"),
    ("powershell", "pwsh"),
    ("erlang", "escript"),
    ("lisp", "guile"),
    ("julia", "julia"),
    ("sed", "sed"),
    ("nft", "nft"),
)

_SHEBANG = re.compile(rb"#![ \t]*(\S+)(?:[ \t]+([^\n]*))?")
# What C cannot have at the start of a line. `class Name;` is left out: C headers write it under __cplusplus.
_CPP = re.compile(
    rb"^[ \t]*(?:namespace(?:[ \t]+[\w:]+)?[ \t]*(?:\{|$)|template[ \t]*<|class[ \t]+[\w ]+[ \t]*[:{]"
    rb"|class[ \t]+\w+[ \t]*$|(?:public|private|protected)[ \t]*:|using[ \t]+(?:namespace[ \t]|\w+[ \t]*=))",
    re.MULTILINE,
)


def shebang_language(head: bytes) -> str | None:
    """The language of a script's #! line; "script" for a program that we do not know; None without such a line."""
    match = _SHEBANG.match(head[:512].removeprefix(b"\xef\xbb\xbf"))
    if match is None:
        return None
    words = [match[1].decode("ascii", "replace"), *(match[2] or b"").decode("ascii", "replace").split()]
    program = words[0].rsplit("/", 1)[-1]
    if program == "env":  # #!/usr/bin/env -S VAR=1 python3 -u
        program = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        program = program.rsplit("/", 1)[-1]
    return INTERPRETERS.get(program) or INTERPRETERS.get(program.rstrip("0123456789.-")) or "script"


def header_language(head: bytes) -> str:
    """What a .h file is: C, unless it clearly has C++ in it."""
    return "cpp" if _CPP.search(head) else "c"


# How the files begin that share an extension with another language. The first that fits is it.
_RECIPE = (
    rb"^(?:inherit|require|SUMMARY|LICENSE|SRC_URI|DEPENDS|python |do_\w+[ \t]*\()"
    rb"|^[A-Z][\w:${}-]*(?:[ \t]+=|[ \t]*(?:\?\??|[:+.])=|[ \t]*=[.+])[ \t]*[\"']"
)
_PREPROCESSOR = rb"^[ \t]*#[ \t]*(?:include|define|ifn?def|if|pragma|undef)\b"
_BY_CONTENT: dict[str, tuple[tuple[str, re.Pattern[bytes]], ...]] = {
    extension: tuple((language, re.compile(pattern, re.MULTILINE)) for language, pattern in choices)
    for extensions, choices in (
        (
            "inc",
            (
                ("php", rb"\A\s*<\?php"),
                ("bitbake", _RECIPE),
                ("c", _PREPROCESSOR + rb"|^[ \t]*(?:/\*|//|static\b|\{)"),
                ("make", rb"^[\w-]+[ \t]*:?=|^[\w./%-]+:|^(?:ifn?eq|ifn?def)\b"),
                ("asm", rb"^[ \t]*[.%](?:macro|equ|set|section|globl?|include)\b"),
            ),
        ),
        ("conf cfg", (("kconfig", rb"^(?:CONFIG_\w+=|# CONFIG_\w+ is not set$)"), ("bitbake", _RECIPE))),
        ("config", (("xml", rb"\A(?:\xef\xbb\xbf)?\s*<"),)),
        ("ts", (("xml", rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE)"),)),
        (
            "m",
            (
                ("objc", rb"^[ \t]*(?:#[ \t]*import\b|@(?:interface|implementation|class|import|protocol)\b)"),
                ("matlab", rb""),
            ),
        ),
        ("pl", (("prolog", rb"^:-[ \t]*\w|^%+[ \t]"),)),
    )
    for extension in extensions.split()
}


def extension_language(extension: str, head: bytes) -> str:
    """The language of a file with one of EXTENSIONS; its first bytes decide between languages that share it."""
    if extension == "h":
        return header_language(head)
    for language, pattern in _BY_CONTENT.get(extension, ()):
        if pattern.search(head):
            return language
    return EXTENSIONS[extension]


_NAMING = re.compile(r"(?P<glob>[^=/]+)=(?P<language>[a-z][a-z0-9+#_-]*)")


def configured(entries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(glob, language) pairs of a configuration's "GLOB=LANGUAGE" entries, such as "*.foo=c" or "Jamfile=make".

    Raises ConfigError for one that says something else.
    """
    found = []
    for entry in entries:
        match = _NAMING.fullmatch(entry.strip())
        if match is None:
            raise ConfigError(
                f"code_names cannot have {entry!r} in it: GLOB=LANGUAGE is wanted, such as '*.foo=c'.",
                fix="correct code_names",
            )
        found.append((match["glob"], match["language"]))
    return tuple(found)


def configured_language(name: str, names: Sequence[tuple[str, str]]) -> str | None:
    """The language that the first fitting one of `configured` names gives a file name; None without any."""
    return next((language for glob, language in names if fnmatch.fnmatchcase(name, glob)), None)
