# SPDX-License-Identifier: GPL-2.0-only
"""Writes the XLM-R tokenizer (bge-m3 and multilingual-e5 share it) as a `tokenizers` JSON file."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from .weights import Vocabulary

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
UNREACHABLE = -100.0


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """SentencePiece's unigram model over the vocabulary.

    The vocabulary's own normalisation is NFKC but for some characters that it deletes or turns into a space (nmt_nfkc);
    those come first as two replacements, so that NFKC can do the rest. White space is split off before Metaspace, which
    is SentencePiece's remove_extra_whitespaces.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    deleted, spaces = _beyond_nfkc(vocabulary.rules)
    # A document that says "</s>" must not end the sequence: in text a special costs more than its letters.
    pieces = [
        (piece, UNREACHABLE if piece in SPECIALS else score)
        for piece, score in zip(vocabulary.pieces, vocabulary.scores, strict=True)
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, vocabulary.unk))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(_character_class(deleted)), ""),
            normalizers.Replace(Regex(_character_class(spaces)), " "),
            normalizers.NFKC(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    ids = {piece: index for index, piece in enumerate(vocabulary.pieces) if piece in SPECIALS}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", ids["<s>"]), ("</s>", ids["</s>"])]
    )
    return tokenizer


def _beyond_nfkc(rules: dict[int, tuple[int, ...]]) -> tuple[list[int], list[int]]:
    deleted, spaces = [], []
    for code_point, outputs in rules.items():
        if "".join(map(chr, outputs)) == unicodedata.normalize("NFKC", chr(code_point)):
            continue
        if not outputs:
            deleted.append(code_point)
        elif outputs == (32,):
            spaces.append(code_point)
        else:
            raise ValueError(f"U+{code_point:04X} is normalised in a way that is neither NFKC, nothing nor a space")
    return deleted, spaces


def _character_class(code_points: list[int]) -> str:
    return "[" + "".join(re.escape(chr(code_point)) for code_point in code_points) + "]"
