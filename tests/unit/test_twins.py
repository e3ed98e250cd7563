# SPDX-License-Identifier: GPL-2.0-only
"""How much of a store is read to find documents by their content."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bigos.stores import MOST_TWINS, points, twins
from store_documents import document

CONTENTS = [f"v{number}" for number in range(6)]


@given(
    having=st.lists(st.integers(0, 5 * MOST_TWINS), min_size=6, max_size=6), asked=st.lists(st.sampled_from(CONTENTS))
)
def test_few_of_many_alike_are_read_and_none_is_missed(having: list[int], asked: list[str]) -> None:
    records = [
        points.record_payload(document(f"/{content}/{number}.txt", 1, content).record)
        for content, count in zip(CONTENTS, having, strict=True)
        for number in range(count)
    ]
    handed = 0

    def read(contents: list[str], limit: int) -> list[points.Payload]:
        nonlocal handed
        found = [record for record in records if record["content_hash"] in contents][:limit]
        handed += len(found)
        return found

    found = twins.find(asked, read)
    wanted = {content: min(count, MOST_TWINS) for content, count in zip(CONTENTS, having, strict=True)}
    assert {content: len(alike) for content, alike in found.items()} == {
        content: wanted[content] for content in asked if wanted[content]
    }
    assert handed <= MOST_TWINS * len(set(asked)) ** 2, "it reads as many as there are"
