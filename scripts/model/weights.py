# SPDX-License-Identifier: GPL-2.0-only
"""Reads the E5S1 file: multilingual-e5-small with 4-bit weights and the XLM-R vocabulary (little endian throughout).

    magic "E5S1", u32 version
    i32 hidden, layers, heads, feed-forward, vocabulary, positions, token types; f32 LayerNorm epsilon; i32 block size
    i32 pieces, bos, eos, pad, unk; u64 blob bytes; u32 offsets[pieces + 1]; f32 scores[pieces]; the pieces in UTF-8
    i32 rules, u32 rule bytes; a rule: u32 code point, u8 n, u32 outputs[n]     (the vocabulary's normalisation)
    i32 tensors; a tensor: u16 name bytes, name, u8 type (0 f32, 1 Q4_0), u32 elements, u64 offset, u64 bytes

Q4_0 holds 32 weights in 18 bytes: an fp16 scale, then 16 bytes; byte j has weight j in its low nibble and weight j + 16
in its high one, each minus 8.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 32


class DamagedWeights(Exception):
    """The file is not a whole E5S1 file."""


@dataclass(frozen=True)
class Vocabulary:
    """The unigram pieces with their log probabilities, and the normalisation rules by code point."""

    pieces: list[str]
    scores: list[float]
    unk: int
    rules: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class Quantised:
    """A matrix [rows, columns] in blocks of 32 along its columns: values -8..7 and one scale a block."""

    values: NDArray[np.int8]
    scales: NDArray[np.float32]

    def dense(self) -> NDArray[np.float32]:
        """The float matrix [rows, columns] that the blocks stand for."""
        rows, columns = self.values.shape
        blocks = self.values.reshape(rows, columns // BLOCK, BLOCK).astype(np.float32)
        return (blocks * self.scales[:, :, None]).reshape(rows, columns)


@dataclass(frozen=True)
class Weights:
    """The whole model."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    epsilon: float
    vocabulary: Vocabulary
    floats: dict[str, NDArray[np.float32]]
    matrices: dict[str, Quantised]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[int | float, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def array(self, kind: str, count: int) -> NDArray[np.generic]:
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values

    def bytes(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece


def read_weights(data: bytes) -> Weights:
    """Parse an E5S1 file.

    Raises:
        DamagedWeights: wrong magic or version, or the file ends too early.
    """
    if data[:4] != b"E5S1":
        raise DamagedWeights("not an E5S1 file")
    try:
        return _read(_Reader(data))
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise DamagedWeights(str(error)) from error


def _read(reader: _Reader) -> Weights:
    reader.at = 4
    (version,) = reader.take("I")
    hidden, layers, heads, feed_forward, _vocab, positions, _types = (int(v) for v in reader.take("7i"))
    (epsilon,) = reader.take("f")
    (block,) = reader.take("i")
    if (version, block) != (1, BLOCK):
        raise DamagedWeights(f"version {version} with blocks of {block}; known is 1 with {BLOCK}")
    vocabulary = _read_vocabulary(reader)
    floats: dict[str, NDArray[np.float32]] = {}
    matrices: dict[str, Quantised] = {}
    (count,) = reader.take("i")
    for _ in range(int(count)):
        (name_bytes,) = reader.take("H")
        name = reader.bytes(int(name_bytes)).decode()
        kind, elements, offset, size = (int(v) for v in reader.take("BIQQ"))
        raw = reader.data[offset : offset + size]
        if kind == 0:
            floats[name] = np.frombuffer(raw, "<f4", elements)
        else:
            columns = feed_forward if name.endswith("fo.w") else hidden
            matrices[name] = _read_q4(raw, elements, columns)
    return Weights(hidden, layers, heads, feed_forward, positions, float(epsilon), vocabulary, floats, matrices)


def _read_vocabulary(reader: _Reader) -> Vocabulary:
    count, _bos, _eos, _pad, unk = (int(v) for v in reader.take("5i"))
    (blob_bytes,) = reader.take("Q")
    offsets = reader.array("<u4", count + 1)
    scores = reader.array("<f4", count)
    blob = reader.bytes(int(blob_bytes))
    pieces = [blob[offsets[i] : offsets[i + 1]].decode() for i in range(count)]
    rules: dict[int, tuple[int, ...]] = {}
    (rule_count, _rule_bytes) = reader.take("iI")
    for _ in range(int(rule_count)):
        code_point, outputs = (int(v) for v in reader.take("IB"))
        rules[code_point] = tuple(int(v) for v in reader.take(f"{outputs}I"))
    return Vocabulary(pieces, [float(score) for score in scores], unk, rules)


def _read_q4(raw: bytes, elements: int, columns: int) -> Quantised:
    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)]), elements // BLOCK)
    low = (blocks["nibbles"] & 15).astype(np.int8) - 8
    high = (blocks["nibbles"] >> 4).astype(np.int8) - 8
    rows = elements // columns
    values = np.concatenate([low, high], axis=1).reshape(rows, columns)
    return Quantised(values, blocks["scale"].astype(np.float32).reshape(rows, columns // BLOCK))
