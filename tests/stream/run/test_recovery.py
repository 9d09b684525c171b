"""Which of checkpoint, state and table belong together, and the sentence where they don't."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dbt.adapters.spark_streaming.environment.storage import Storage
from dbt.adapters.spark_streaming.query.frontend.streams import RelationInfo
from dbt.adapters.spark_streaming.query.generation import generate
from dbt.adapters.spark_streaming.query.planner import plan_query
from dbt.adapters.spark_streaming.query.state_signature import (
    AggregateState,
    MetricState,
    RowKey,
    Signature,
    WindowOperatorState,
)
from dbt.adapters.spark_streaming.query.windows import expansion, window_arguments
from dbt.adapters.spark_streaming.stream.common.errors import StreamError
from dbt.adapters.spark_streaming.stream.common.model import StreamModel, StreamSource
from dbt.adapters.spark_streaming.stream.evolution.compare import evolution
from dbt.adapters.spark_streaming.stream.progress.position import Position
from dbt.adapters.spark_streaming.stream.run.recovery import (
    StoredProgress,
    check_can_continue,
    is_unfinished,
    query_problem,
)
from dbt.adapters.spark_streaming.stream.storage.checkpoint import Checkpoint

MODEL = StreamModel("curves", "db.curves", "db.curves__state", Storage("/root", lambda: None), ())
REBUILD = "To rebuild it: `dbt run --full-refresh --select curves`."
BESIDE = (
    "To rebuild it: `dbt run --full-refresh --select curves`; or next to the old version, which stays until the new "
    "one has caught up: `dbt-stream deploy init curves`; or with a table that has the rows so far: `dbt-stream state "
    "bootstrap curves --from <table>`."
)


def _keyed(*keys: str, source: str = "SELECT * FROM a") -> Signature:
    """A signature of windows by keys."""
    aggregates = AggregateState({key: key for key in keys})
    return Signature((WindowOperatorState("window_1", source=source, aggregates=aggregates),))


SIGNATURE = _keyed("k")

FRESH = StoredProgress(checkpoint=None, has_target=True, target_written=False, target=None)
AT_SEVEN = Position("curves", "q1", batch=7, rows_out=100)
GOING = StoredProgress(
    checkpoint=Checkpoint("q1", planned=7, done=7),
    has_target=True,
    target_written=True,
    target=AT_SEVEN,
    state=AT_SEVEN,
    signature=SIGNATURE,
)

ELSEWHERE = (
    "(Was it begun on another machine? /root is a folder of this machine; both need a 'storage_root' in the profile that "
    "each of them sees.)"
)


def problem(found: StoredProgress, stateful: bool = True) -> str:
    with pytest.raises(StreamError) as raised:
        check_can_continue(MODEL, stateful, SIGNATURE, found)
    sentence = raised.value.msg
    assert sentence.startswith("Model curves: ")
    # Where it is the query that is another one, the old one can go on meanwhile.
    said, to_do, end = sentence.removeprefix("Model curves: ").partition("To rebuild it: ")
    assert to_do + end == (BESIDE if "its query has changed" in said else REBUILD)
    return said.strip()


@pytest.mark.parametrize(
    "found",
    [
        FRESH,
        GOING,
        # A crash before Spark planned anything, before state, between state and table, before Spark's commit.
        replace(FRESH, checkpoint=Checkpoint("q1", planned=None, done=None)),
        replace(FRESH, checkpoint=Checkpoint("q1", planned=0, done=None)),
        replace(GOING, checkpoint=Checkpoint("q1", planned=8, done=7)),
        replace(GOING, checkpoint=Checkpoint("q1", planned=8, done=7), state=replace(AT_SEVEN, batch=8)),
        replace(GOING, checkpoint=Checkpoint("q1", planned=7, done=6)),
        # Nothing was put out so far.
        replace(GOING, target=None, target_written=False, state=replace(AT_SEVEN, rows_out=0)),
        # The table's snapshots were expired by its owner, but nothing is left to do.
        replace(GOING, target=None),
        # Windows were closed after the micro-batch.
        replace(GOING, state=replace(AT_SEVEN, flush=1), target=replace(AT_SEVEN, flush=1)),
    ],
)
def test_what_belongs_together_goes_on(found: StoredProgress) -> None:
    check_can_continue(MODEL, True, SIGNATURE, found)


def test_table_gone() -> None:
    assert problem(replace(GOING, has_target=False)) == (
        "its table db.curves is gone, but its state db.curves__state is there."
    )


def test_no_table_at_all() -> None:
    assert problem(replace(FRESH, has_target=False)) == "its table db.curves doesn't exist."


def test_checkpoint_gone() -> None:
    sentence = problem(replace(GOING, checkpoint=None))
    assert sentence == (
        "its table db.curves holds rows of a stream whose checkpoint /root/checkpoints/db.curves is gone; "
        f"starting again would put every row in twice. {ELSEWHERE}"
    )


def test_checkpoint_gone_before_anything_was_put_out() -> None:
    assert problem(replace(GOING, checkpoint=None, target=None)) == (
        f"its state db.curves__state is there, but its checkpoint /root/checkpoints/db.curves is gone. {ELSEWHERE}"
    )


def test_state_gone() -> None:
    assert problem(replace(GOING, state=None, signature=None)) == (
        "its checkpoint /root/checkpoints/db.curves is there, but its state db.curves__state is gone."
    )


def test_state_gone_after_a_crash_in_the_first_micro_batch() -> None:
    found = replace(GOING, checkpoint=Checkpoint("q1", planned=0, done=None), state=None)
    assert (
        problem(found) == "its table db.curves holds rows of a stream whose state db.curves__state is gone."
    )


def test_state_of_another_stream() -> None:
    assert problem(replace(GOING, state=replace(AT_SEVEN, query_id="q0"))) == (
        "its state db.curves__state was written by another stream (checkpoint q0) than the one in "
        "/root/checkpoints/db.curves (q1)."
    )


def test_table_of_another_stream() -> None:
    assert problem(replace(GOING, target=replace(AT_SEVEN, query_id="q0"))) == (
        "its table db.curves was written by another stream (checkpoint q0) than the one in "
        "/root/checkpoints/db.curves (q1)."
    )


def test_an_older_checkpoint() -> None:
    assert problem(replace(GOING, checkpoint=Checkpoint("q1", planned=5, done=5))) == (
        "its state db.curves__state is at micro-batch 7, but its checkpoint /root/checkpoints/db.curves only at "
        "5: an older checkpoint was put back."
    )


def test_state_rolled_back() -> None:
    assert problem(replace(GOING, state=replace(AT_SEVEN, batch=4), target=None)) == (
        "its state db.curves__state is at micro-batch 4, but its checkpoint /root/checkpoints/db.curves at 7: the "
        "state was rolled back."
    )


def test_state_behind_the_table() -> None:
    found = replace(GOING, checkpoint=Checkpoint("q1", planned=7, done=6), state=replace(AT_SEVEN, batch=6))
    assert problem(found) == (
        "its table db.curves is at micro-batch 7, but its state db.curves__state at 6: the state was rolled back."
    )


def test_table_rolled_back() -> None:
    found = replace(GOING, target=replace(AT_SEVEN, batch=5, rows_out=90))
    assert problem(found) == (
        "90 rows were emitted, going by its table db.curves, and 100 going by its state db.curves__state: the "
        "table was rolled back."
    )


@pytest.mark.parametrize("stateful", [True, False])
def test_a_part_of_the_checkpoint_gone(stateful: bool) -> None:
    found = replace(
        GOING, checkpoint=Checkpoint("q1", 7, 7, missing=("offsets/7",)), state=AT_SEVEN if stateful else None
    )
    assert problem(found, stateful) == (
        "a part of its checkpoint /root/checkpoints/db.curves is gone (offsets/7), so rows could be skipped or read "
        "twice."
    )


def test_all_that_a_checkpoint_planned_gone() -> None:
    found = replace(GOING, checkpoint=Checkpoint("q1", planned=None, done=None), state=None)
    assert "is at micro-batch 7, but its checkpoint /root/checkpoints/db.curves only at None" in problem(
        found, False
    )
    nothing = replace(FRESH, checkpoint=Checkpoint("q1", planned=3, done=None))
    assert "no longer shows what was put into it" in problem(nothing, stateful=False)
    assert "its state db.curves__state is gone" in problem(nothing)


def test_a_changelog_is_one_step_ahead_at_most() -> None:
    ahead = replace(AT_SEVEN, batch=8)
    crashed = replace(GOING, checkpoint=Checkpoint("q1", 8, 7), state=ahead, changes=ahead, changes_ahead=1)
    check_can_continue(MODEL, True, SIGNATURE, crashed)
    check_can_continue(MODEL, False, SIGNATURE, replace(crashed, state=None))
    assert problem(replace(crashed, changes_ahead=2)) == (
        "its changelog db.curves__changes is 2 steps ahead of its table db.curves: the table was rolled back."
    )
    assert problem(replace(crashed, state=AT_SEVEN)) == (
        "its changelog db.curves__changes is at micro-batch 8, but its state db.curves__state at 7: the state was rolled "
        "back."
    )
    assert problem(replace(crashed, checkpoint=Checkpoint("q1", 7, 7), state=None), stateful=False) == (
        "its changelog db.curves__changes is at micro-batch 8, but its checkpoint /root/checkpoints/db.curves only at 7: "
        "an older checkpoint was put back."
    )
    # One that is behind is brought up to the table.
    check_can_continue(MODEL, True, SIGNATURE, replace(GOING, changes=replace(AT_SEVEN, batch=3)))
    check_can_continue(MODEL, True, SIGNATURE, replace(FRESH, changes=Position("curves", "", batch=-1)))
    assert problem(replace(FRESH, changes=replace(AT_SEVEN, query_id="q0"))) == (
        "its changelog db.curves__changes was written by another stream (checkpoint q0) than the one in "
        "/root/checkpoints/db.curves (none yet)."
    )


def test_a_changelog_whose_state_is_gone() -> None:
    first = replace(AT_SEVEN, batch=0, rows_out=0)
    cut_short = replace(
        FRESH, checkpoint=Checkpoint("q1", planned=0, done=None), changes=first, changes_ahead=1
    )
    assert problem(cut_short) == (
        "its changelog db.curves__changes holds changes of a stream whose state db.curves__state is gone."
    )
    check_can_continue(MODEL, False, SIGNATURE, cut_short)
    check_can_continue(MODEL, True, SIGNATURE, replace(cut_short, state=first, signature=SIGNATURE))


def test_table_replaced() -> None:
    sentence = (
        "its table db.curves no longer shows what was put into it (it was replaced, or all of its snapshots "
        "expired), so rows could be missing or come twice."
    )
    assert problem(replace(GOING, target=None, target_written=False)) == sentence
    crashed = replace(GOING, checkpoint=Checkpoint("q1", planned=7, done=6), target=None)
    assert problem(crashed) == sentence


def test_rows_of_an_incremental_run() -> None:
    for stateful in (True, False):
        assert problem(replace(GOING, target_incremental=True), stateful) == (
            "an incremental run has added rows to its table db.curves since the stream ran, and what the stream reads "
            "would be added to these rows. To keep them, if the stream won't read any of them again: `ALTER TABLE "
            "db.curves UNSET TBLPROPERTIES ('stream.incremental-after')`."
        )


OTHERS = (
    "its table db.curves has 12 rows, and none of its commits is a stream's: it was built in another way (as a table "
    "or incrementally, by another materialization), and what the stream reads would be added to these rows."
)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_table_that_batch_built(stateful: bool) -> None:
    built = replace(FRESH, target_written=True, target_has_full_history=True, target_rows=12)
    assert problem(built, stateful) == OTHERS
    # In the place of a stream's.
    state = replace(AT_SEVEN, rows_out=0) if stateful else None
    instead = replace(GOING, target=None, target_has_full_history=True, target_rows=12, state=state)
    assert problem(instead, stateful) == OTHERS
    check_can_continue(MODEL, stateful, SIGNATURE, replace(built, target_rows=0))
    # Its first snapshots have expired, as whoever looks after it has them.
    for checkpoint in (None, Checkpoint("q1", planned=None, done=None)):
        assert (
            problem(replace(built, target_has_full_history=False, checkpoint=checkpoint), stateful) == OTHERS
        )
    # Those of a stream's own table may, too.
    check_can_continue(MODEL, stateful, SIGNATURE, replace(instead, target_has_full_history=False))


def test_a_table_that_was_built_anew_without_rows() -> None:
    instead = replace(GOING, target=None, target_has_full_history=True)
    assert "no longer shows what was put into it" in problem(instead)
    assert "no longer shows what was put into it" in problem(replace(instead, state=None), stateful=False)


def test_a_changed_query_names_what_changed() -> None:
    found = replace(GOING, signature=_keyed("k", "l"))
    assert problem(found) == (
        "its query has changed in what its state depends on (the group key l is gone). Put the query back, and it continues."
    )


def test_a_state_is_kept_where_only_rows_changed() -> None:
    keeps = replace(MODEL, keep_state=True)
    found = replace(GOING, signature=_keyed("k"))
    filtered = _keyed("k", source="SELECT * FROM a WHERE b")
    with pytest.raises(
        StreamError, match=r"To keep the state.*`dbt run --select curves --vars '{keep_state: true}'`\."
    ):
        check_can_continue(MODEL, True, filtered, found)
    check_can_continue(keeps, True, filtered, found)
    with pytest.raises(StreamError, match="the group key l is new") as raised:
        check_can_continue(keeps, True, _keyed("l", source="SELECT * FROM a WHERE b"), found)
    assert "keep_state" not in raised.value.msg


@pytest.mark.parametrize(
    "found",
    [
        FRESH,
        replace(GOING, state=None, signature=None),
        replace(GOING, state=None, checkpoint=Checkpoint("q1", planned=8, done=7)),
        replace(GOING, state=None, target=None),
    ],
)
def test_without_state_the_table_alone_says_how_far_it_is(found: StoredProgress) -> None:
    check_can_continue(MODEL, False, SIGNATURE, found)


def test_without_state_a_replaced_table_is_noticed() -> None:
    found = replace(GOING, state=None, target=None, target_written=False)
    assert "no longer shows what was put into it" in problem(found, stateful=False)


def test_without_state_a_table_that_was_rolled_back_is_noticed() -> None:
    found = replace(GOING, state=None, target=replace(AT_SEVEN, batch=5))
    assert problem(found, stateful=False).endswith(
        "/root/checkpoints/db.curves at 7: the table was rolled back."
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (GOING, False),
        (replace(GOING, checkpoint=Checkpoint("q1", planned=8, done=7)), False),
        (replace(GOING, checkpoint=Checkpoint("q1", 8, 7), state=replace(AT_SEVEN, batch=8)), True),
        # Nothing was to be put out, and Spark saw the micro-batch through.
        (replace(GOING, checkpoint=Checkpoint("q1", 8, 8), state=replace(AT_SEVEN, batch=8)), False),
        (replace(GOING, state=replace(AT_SEVEN, flush=1)), True),
        (replace(GOING, state=replace(AT_SEVEN, flush=1, folded=True)), False),
    ],
)
def test_what_a_crash_left_unfinished(found: StoredProgress, expected: bool) -> None:
    assert is_unfinished(found) is expected


# -- an edited query -----------------------------------------------------------------------------------


def _signature(*metrics: str, source: str = "t", keys: Mapping[str, str] | None = None) -> Signature:
    listed = {name: MetricState(name, (name,), ("value",)) for name in metrics}
    return Signature(
        (
            WindowOperatorState(
                "window_1", source=source, aggregates=AggregateState(keys or {}, metrics=listed)
            ),
        )
    )


def test_aggregates_that_come_and_go_are_no_problem_unless_they_are_to_be() -> None:
    found = replace(GOING, signature=_signature("a", "b"))
    check_can_continue(MODEL, True, _signature("b", "c"), found)
    with pytest.raises(StreamError) as raised:
        check_can_continue(replace(MODEL, on_state_change="fail"), True, _signature("b", "c"), found)
    assert (
        "its query has changed in what its state depends on (the aggregate a is gone; the aggregate c is new), and its "
        "config on_state_change is 'fail'. To continue the state" in raised.value.msg
    )
    check_can_continue(replace(MODEL, on_state_change="fail"), True, _signature("b", "a"), found)


def test_other_rows_are_a_problem_unless_their_author_says_so() -> None:
    found, other = replace(GOING, signature=_signature("a")), _signature("a", "b", source="t where x")
    with pytest.raises(
        StreamError,
        match=r"what is read below the aggregates\)\. Put the query back, and it continues\. To keep the state",
    ):
        check_can_continue(MODEL, True, other, found)
    check_can_continue(replace(MODEL, keep_state=True), True, other, found)
    with pytest.raises(StreamError, match=r"\(the group key k is new\). Put the query back"):
        check_can_continue(
            replace(MODEL, keep_state=True), True, _signature("a", source="t where x", keys={"k": "k"}), found
        )


def test_a_key_of_the_table_that_the_query_does_not_give_any_more() -> None:
    key = RowKey({"k": "k", "page": "page"})
    found, now = (
        replace(GOING, signature=replace(_signature("a"), row_key=key)),
        replace(_signature("a"), row_key=key),
    )
    check_can_continue(replace(MODEL, columns={"K": "int", "page": "int"}), True, now, found)
    with pytest.raises(StreamError, match="its query no longer returns page, part of the key of its table"):
        check_can_continue(replace(MODEL, columns={"k": "int"}), True, _signature("a"), found)


def _row_key(
    text: str, window: bool = False, unique_key: tuple[str, ...] | None = None, upsert: bool = True
) -> Signature:
    """A signature with what tells rows of the query apart."""
    tumble = window_arguments.make_window("tumble", "ts", "10 minutes")
    source = expansion.expand_window("raw.bid", tumble) if window else expansion.expand_stream("raw.bid")
    plan = plan_query.plan(
        text.format(source=source),
        {"raw.bid": RelationInfo("ts")},
        domains=("item", "bidder", "page", "a", "b", "k", "x", "y"),
    )
    made = generate.generate_program(plan, upsert=upsert)
    found = made.upsert
    if found is not None and unique_key:
        found = replace(found, key=unique_key)
    return replace(_signature("a"), row_key=found.row_key if found else None)


GROUPS = "select {items}, count(*) as n from {{source}} group by {by}"
WINDOWS = (
    "select window_start, {items}, count(*) as n from {{source}} group by window_start, window_end, item"
)


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            _row_key(GROUPS.format(items="item", by="item")),
            _row_key(GROUPS.format(items="item as a, item", by="item")),
            "identified by a (item), and were by item, so",
        ),
        (
            _row_key(GROUPS.format(items="a as x, b as y", by="a, b")),
            _row_key(GROUPS.format(items="a as y, b as x", by="a, b")),
            "identified by x (b), y (a), and were by x (a), y (b), so",
        ),
        (
            _row_key(WINDOWS.format(items="window_end, item"), True),
            _row_key(WINDOWS.format(items="window_end as t, window_end, item"), True),
            "identified by item (item), t (window_end), and were by item (item), window_end, so",
        ),
        (
            _row_key(WINDOWS.format(items="window_end, item"), True),
            _row_key(WINDOWS.format(items="window_end as t, window_end, item"), True, ("window_end", "item")),
            "window_end where old.`t` = fired.window_end, and were by item (item), window_end where old.`window_end` =",
        ),
        (
            _row_key(WINDOWS.format(items="window_end, item"), True),
            _row_key(WINDOWS.format(items="window_end, item"), True, upsert=False),
            "identified by nothing (they are only added), and were by item (item), window_end, so",
        ),
        (
            _row_key(WINDOWS.format(items="window_end, item"), True, upsert=False),
            _row_key(WINDOWS.format(items="window_end, item"), True),
            "identified by item (item), window_end, and were by nothing (they are only added), so",
        ),
    ],
)
def test_rows_of_the_table_that_would_be_found_by_other_columns(
    was: Signature, now: Signature, said: str
) -> None:
    with pytest.raises(StreamError) as raised:
        check_can_continue(MODEL, True, now, replace(GOING, signature=was))
    assert said in raised.value.msg and "Keep the columns of the key as they were" in raised.value.msg
    assert raised.value.msg.endswith(BESIDE)


def test_rows_of_the_table_that_are_found_as_they_were() -> None:
    old = _row_key(GROUPS.format(items="a as x, b as y", by="a, b"))
    for items in ("b as y, a as x", "a as x, a as z, b as y, 1 as c"):
        check_can_continue(
            MODEL, True, _row_key(GROUPS.format(items=items, by="b, a")), replace(GOING, signature=old)
        )
    adds = _row_key(WINDOWS.format(items="window_end, item"), True, upsert=False)
    check_can_continue(MODEL, True, adds, replace(GOING, signature=_signature("a")))


def test_rows_of_the_table_that_a_rebuild_compares_all_together() -> None:
    """A rebuild finds them by the columns of the key, whatever the query calls what is in them."""
    groups = f"select a, b, count(*) as m from {expansion.expand_stream('raw.bid')} group by a, b"

    def signed(items: str, names: tuple[str, str] = ("x", "y")) -> Signature:
        one, two = names
        rows = f"select {items}, m from ({groups})"
        text = f"select {one} as k, {two} as n, count(*) as c from ({rows}) group by {one}, {two}"
        made = generate.generate_program(
            plan_query.plan(text, {"raw.bid": RelationInfo("ts")}, domains=("a", "b"))
        )
        assert made.upsert is not None and made.fingerprints is not None
        return replace(made.signature, row_key=made.upsert.row_key, fingerprints=made.fingerprints())

    had = signed("a as x, b as y")
    for has in (
        signed("a as v, b as x", ("v", "x")),
        signed("a as y, b as x"),
        signed("a as y, b as x", ("y", "x")),
        signed("a + 1 as x, b as y"),
    ):
        found = evolution(had, has)
        assert found.rebuilt and query_problem(MODEL, found, had, has) is None
    has = signed("a as x, b as y", ("y", "x"))
    found = evolution(had, has)
    said = query_problem(MODEL, found, had, has)
    assert (
        not found.rebuilt
        and said is not None
        and "identified by k (y), n (x), and were by k (x), n (y)" in said
    )


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize(
    ("table", "changes", "name"),
    [("cat.db.up", "cat.db.up__changes", "up"), ("db.`a b`", "db.`a b__changes`", "a b")],
)
def test_a_stream_upstream_that_is_none_any_more(stateful: bool, table: str, changes: str, name: str) -> None:
    model = replace(MODEL, sources=(StreamSource(table, table),))
    found = replace(GOING, reads=(changes, "db.other"), signature=_keyed("other"))
    with pytest.raises(StreamError) as raised:
        check_can_continue(model, stateful, SIGNATURE, found)
    assert raised.value.msg == (
        f"Model curves: it has read the changes of {table} ({changes}), and no streaming model that updates its rows "
        f"writes that table any more. If {name} is now a table or an incremental model, make it a streaming model "
        f"again and rebuild both: `dbt run --full-refresh --select {name}+`; or build this model in batch as well: "
        f"materialized='table', with ref('{name}') instead of stream(ref('{name}')). If {name} is still a streaming "
        "model, rebuild this one: `dbt run --full-refresh --select curves`."
    )


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize(
    ("table", "changes"), [("cat.db.up", "cat.db.up__changes"), ("db.`a b`", "db.`a b__changes`")]
)
def test_a_stream_upstream_whose_rows_are_updated_now(stateful: bool, table: str, changes: str) -> None:
    """The query of this model is unchanged, so there is nothing to put back in it."""
    model = replace(MODEL, sources=(StreamSource(changes, changes),))
    found = replace(GOING, reads=(table, "db.other"), signature=_keyed("other"))
    with pytest.raises(StreamError) as raised:
        check_can_continue(model, stateful, SIGNATURE, found)
    assert raised.value.msg == (
        f"Model curves: it has read the rows of {table}, which are updated since that model was edited or rebuilt, so a "
        f"stream reads their changes now ({changes}). To continue with these, rebuild this model: "
        "`dbt run --full-refresh --select curves`."
    )
    # Both are read by this query, and in another order.
    both = (StreamSource(changes, changes), StreamSource(table, table))
    check_can_continue(replace(MODEL, sources=both), True, SIGNATURE, replace(GOING, reads=(table, changes)))


@pytest.mark.parametrize("reads", [(), ("cat.db.up",), ("cat.other.up__changes",)])
def test_a_table_that_was_always_read_as_it_is(reads: tuple[str, ...]) -> None:
    model = replace(MODEL, sources=(StreamSource("cat.db.up", "cat.db.up"),))
    check_can_continue(model, True, SIGNATURE, replace(GOING, reads=reads))
