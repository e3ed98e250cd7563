# SPDX-License-Identifier: GPL-2.0-only
"""Which names are source code, and in what language: the one table to extend.

Keys of EXTENSIONS are lower case without the dot; NAMES are exact file names; NAME_GLOBS are tried when the extension
says nothing; INTERPRETERS are the programs of a #! line without version digits.
"""

from __future__ import annotations

import re


def _table(*rows: tuple[str, str]) -> dict[str, str]:
    return {word: language for language, words in rows for word in words.split()}


EXTENSIONS = _table(
    ("c", "c h"),
    ("cpp", "cpp cc cxx c++ hpp hh hxx h++ ipp tpp inl ino"),
    ("csharp", "cs"),
    ("python", "py pyi pyx pxd pyw"),
    ("shell", "sh bash zsh ksh dash ash fish bats"),
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
    ("asm", "s asm nasm"),
    ("linkerscript", "lds ld"),
    ("yaml", "yaml yml"),
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
    ("tcl", "tcl xdc sdc"),
    ("awk", "awk"),
    ("sql", "sql"),
    ("protobuf", "proto"),
    ("dockerfile", "dockerfile containerfile"),
    ("systemd", "service socket timer mount automount target path slice scope network netdev link container volume"),
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
)

NAMES = _table(
    ("make", "Makefile makefile GNUmakefile Kbuild Makefile.am Makefile.in Makefile.inc"),
    ("kconfig", "Kconfig Config.in .config"),
    ("dockerfile", "Dockerfile Containerfile"),
    ("cmake", "CMakeLists.txt"),
    ("meson", "meson.build meson_options.txt meson.options"),
    ("python", "SConstruct SConscript wscript"),
    ("ruby", "Rakefile Gemfile Vagrantfile"),
    ("groovy", "Jenkinsfile"),
    ("shell", ".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv PKGBUILD APKBUILD"),
    ("ini", ".gitconfig .gitmodules .editorconfig .npmrc .pylintrc .flake8"),
    ("yaml", ".clang-format .clang-tidy .yamllint"),
    ("env", ".env"),
    ("lua", ".luacheckrc"),
)

NAME_GLOBS = (
    ("Makefile[.-]*", "make"),
    ("Kbuild*", "make"),
    ("Kconfig*", "kconfig"),
    ("*_defconfig", "kconfig"),
    ("defconfig", "kconfig"),
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
