# SPDX-License-Identifier: GPL-2.0-only
"""Every kind of source file that a kernel, a bootloader, a Yocto layer or an HDL project has is known by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bigos.errors import ConfigError
from bigos.loaders import detect
from bigos.source.languages import (
    EXTENSIONS,
    INTERPRETERS,
    NAME_GLOBS,
    NAMES,
    WORDS,
    configured,
    configured_language,
    extension_language,
    shebang_language,
)

BY_NAME = """
    c: spi-imx.c
    cpp: main.cpp a.cc a.cxx a.hpp a.hh
    python: conf.py SConstruct
    shell: build.sh env.bash prompt.zsh
    bitbake: linux-imx_6.6.bb busybox_%.bbappend image.bbclass
    make: Makefile Makefile.am rules.mk Kbuild GNUmakefile Makefile-common Kbuild.include
    cmake: CMakeLists.txt Find.cmake
    meson: meson.build
    rust: lib.rs
    go: main.go
    verilog: picorv32.v defs.vh
    systemverilog: top.sv pkg.svh
    vhdl: neorv32_top.vhd core.vhdl
    devicetree: imx8mm.dts imx8mm.dtsi overlay.dtso
    asm: entry.S start.s boot.asm
    linkerscript: u-boot.lds link.ld
    yaml: binding.yaml ci.yml
    toml: pyproject.toml
    ini: setup.cfg nginx.conf app.ini
    java: Main.java
    kotlin: Main.kt build.kts
    javascript: app.js app.mjs
    typescript: app.ts app.tsx
    ruby: a.rb Rakefile
    perl: checkpatch.pl Module.pm
    lua: init.lua
    tcl: synth.tcl pins.xdc timing.sdc
    sql: schema.sql
    protobuf: api.proto
    dockerfile: Dockerfile Dockerfile.dev app.dockerfile Containerfile
    kconfig: Kconfig Kconfig.debug imx_v6_v7_defconfig defconfig .config fragment.config config-6.1.0-18-amd64
    systemd: tee.service boot.mount daily.timer ssh.socket qdrant.container
    udev: 10-imx.rules
    patch: 0001-fix.patch local.diff
    pinout: board.pcf board.lpf
    wks: imx-image.wks
"""


@pytest.mark.parametrize(
    ("name", "language"),
    [
        (name, line.split(":")[0].strip())
        for line in BY_NAME.strip().splitlines()
        for name in line.split(":")[1].split()
    ],
)
def test_source_files_are_known_by_name(name: str, language: str) -> None:
    found = detect(Path("/x") / name, b"some text\n")
    assert (found.spec.name, found.code_language) == ("code", language)


@pytest.mark.parametrize(
    ("extension", "head", "language"),
    [
        ("h", b"#ifndef A_H\n#define A_H\nstruct spi;\n", "c"),
        ("h", b"#pragma once\nnamespace spi {\n", "cpp"),
        ("inc", b'require common.inc\nSRC_URI += "file://a.patch"\n', "bitbake"),
        ("inc", b'# machine\nMACHINE_FEATURES:append = " pci"\n', "bitbake"),
        ("inc", b'DEFAULTTUNE ?= "armv8a"\n', "bitbake"),
        ("inc", b"/* registers */\n#define CTRL 0x00\n", "c"),
        ("inc", b"<?php\n$a = 1;\n", "php"),
        ("inc", b"SRCS := a.c\nall: $(SRCS)\n", "make"),
        ("inc", b"  .macro save\n", "asm"),
        ("inc", b"nothing of any kind\n", "bitbake"),
        ("conf", b'BBPATH .= ":${LAYERDIR}"\n', "bitbake"),
        ("conf", b'MACHINE ??= "imx8mm"\n', "bitbake"),
        ("conf", b'FOO="bar"\n[Service]\nExecStart=/bin/x\n', "ini"),
        ("cfg", b"CONFIG_SPI=y\n# CONFIG_USB is not set\n", "kconfig"),
        ("cfg", b"[metadata]\nname = x\n", "ini"),
        ("config", b"\xef\xbb\xbf<?xml version='1.0'?><configuration/>", "xml"),
        ("ts", b"<?xml version='1.0'?><!DOCTYPE TS>", "xml"),
        ("ts", b"export const a = 1;\n", "typescript"),
        ("m", b"#import <Foundation/Foundation.h>\n", "objc"),
        ("m", b"function y = f(x)\n", "matlab"),
        ("pl", b":- module(spi, []).\n", "prolog"),
        ("pl", b"use strict;\n", "perl"),
    ],
)
def test_the_first_bytes_decide_between_languages_that_share_an_extension(
    extension: str, head: bytes, language: str
) -> None:
    assert extension_language(extension, head) == language


@pytest.mark.parametrize(
    ("line", "language"),
    [
        (b"#!/bin/sh", "shell"),
        (b"#!/usr/bin/env python3.11", "python"),
        (b"#! /usr/bin/env -S LANG=C perl -w", "perl"),
        (b"\xef\xbb\xbf#!/usr/bin/expect -f", "tcl"),
        (b"#!/opt/bin/nobody-knows", "script"),
        (b"# !/bin/sh", None),
    ],
)
def test_scripts_without_an_extension_are_known_by_their_first_line(line: bytes, language: str | None) -> None:
    assert shebang_language(line + b"\necho\n") == language


def test_the_tables_agree_with_each_other() -> None:
    languages = {
        *EXTENSIONS.values(),
        *NAMES.values(),
        *INTERPRETERS.values(),
        *(language for _, language in NAME_GLOBS),
    }
    assert languages > WORDS
    assert all(word == word.lower() and not word.startswith(".") for word in EXTENSIONS)
    assert all(language and language == language.lower() for language in languages)


def test_a_configuration_names_further_files_and_comes_first() -> None:
    names = configured(["*.foo=c", " Jamfile=make", "*.h=cpp", "*.c++=c++"])
    assert configured_language("a.foo", names) == "c"
    assert configured_language("Jamfile", names) == "make"
    assert configured_language("jamfile", names) is None
    assert configured_language("a.h", names) == "cpp"
    assert configured_language("a.c++", names) == "c++"


@pytest.mark.parametrize("entry", ["", "*.foo", "=c", "*.foo=", "a/b=c", "*.foo=C", "*.foo=c d", "a=b=c"])
def test_a_configuration_that_says_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(entry))):
        configured([entry])
