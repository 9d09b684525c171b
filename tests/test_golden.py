"""Queries are planned as tests/golden.json records: CI looks at each twelfth, `-m thorough` at all."""

from __future__ import annotations

import pytest

from tests import golden
from tests.thorough import mostly_thorough

_NAMES = sorted(golden.recorded())
_GROUPS = [tuple(_NAMES[start::12]) for start in range(12)]


@pytest.mark.parametrize("names", mostly_thorough(_GROUPS, _GROUPS[:1]), ids=lambda names: names[0])
def test_queries_are_planned_as_recorded(names: tuple[str, ...]) -> None:
    corpus, recorded = dict(golden.corpus()), golden.recorded()
    now = {name: golden.digests_of(corpus[name]) for name in names}
    assert not golden.differences(now, {name: recorded[name] for name in names})


def test_the_corpus_is_the_recorded_one() -> None:
    names = {name for name, _ in golden.corpus() if not name.startswith("oracle:")}
    assert names == {name for name in _NAMES if not name.startswith("oracle:")}
