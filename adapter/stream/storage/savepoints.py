"""The savepoints of a model, as they are noted under the storage root: small files, read without Spark.

A savepoint is a folder ``savepoints/<model>/<name>`` with a copy of the checkpoint's last entries and, written last,
``savepoint.json``: what state, changelog and table were. Branches of those tables keep their snapshots; before they are made
``branches.json`` lists them, so that they are told from branches of the same name that others make.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..common.errors import StreamError
from ..common.metadata_files import read_note
from ..common.model import StreamModel
from .checkpoint import copy_checkpoint
from .deployments import check_settled

if TYPE_CHECKING:
    from ...environment.storage import Storage

FORMAT = 1
"""Of ``savepoint.json``."""
STATE, CHANGELOG, TABLE = "state", "changelog", "table"
BRANCH = "savepoint_"
"""What the names of the branches begin with that keep snapshots."""
MIGRATION, EDIT, RESTORE = "migration", "edit", "restore"
"""What a savepoint is taken before without being asked for."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_AUTOMATIC = re.compile(rf"before-(?:{MIGRATION}|{EDIT}|{RESTORE})-(\d+)", re.IGNORECASE)
_FILE, _CHECKPOINT, _BRANCHES = "savepoint.json", "checkpoint", "branches.json"


@dataclass(frozen=True)
class Picture:
    """A table as it was: what puts it back."""

    uuid: str
    """Of the table. One that was dropped and made again is another."""
    snapshot: int | None
    """None: nothing was ever written to it."""
    schema: int
    """Iceberg's number of the columns it had, which change without a snapshot."""
    properties: Mapping[str, str]
    """Those that go with its columns and rows."""


@dataclass(frozen=True)
class Savepoint:
    """What a model was when it had taken in a step."""

    name: str
    made: int
    """Milliseconds since 1970."""
    cause: str | None
    """What it was taken before, by itself; None: somebody asked for it."""
    until: int | None
    """Milliseconds since 1970, after which its snapshots may expire; None: they don't."""
    query_id: str
    """Structured Streaming's id of the checkpoint."""
    batch: int
    flush: int
    """The step."""
    watermark: str | None
    tables: Mapping[str, Picture | None]
    """By `STATE`, `CHANGELOG` and `TABLE`; None: there was none."""

    @property
    def branch(self) -> str:
        """That keeps its snapshots, of each table."""
        return f"{BRANCH}{self.name}"

    @property
    def is_automatic(self) -> bool:
        """Whether nobody asked for it."""
        return self.cause is not None


def folder(model: StreamModel, name: str) -> str:
    """Where a savepoint is kept."""
    return f"{model.savepoints}/{name}"


def checkpoint_of(model: StreamModel, name: str) -> str:
    """Its copy of the checkpoint."""
    return f"{folder(model, name)}/{_CHECKPOINT}"


def check_name(model: StreamModel, name: str) -> None:
    """Passes a name that somebody may give a savepoint.

    Raises:
        StreamError: what it may be.
    """
    if not _NAME.fullmatch(name):
        raise StreamError(
            f"Model {model.name}: '{name}' can't be the name of a savepoint; write letters, digits, '_', '-' and '.', "
            "as in before-deploy."
        )
    if _AUTOMATIC.fullmatch(name):
        raise StreamError(
            f"Model {model.name}: '{name}' is how savepoints are called that are taken without being asked for; choose "
            "another name."
        )


def is_asked_for(name: str) -> bool:
    """Whether a savepoint of that name is one that somebody asked for."""
    return _NAME.fullmatch(name) is not None and _AUTOMATIC.fullmatch(name) is None


def listed(storage: Storage, path: str) -> list[Savepoint]:
    """The savepoints in the folder of a model, the oldest first.

    Raises:
        StreamError: one was made by a newer version of this package, or can't be read.
    """
    found = [read(storage, path, name) for name in storage.list(path) if _NAME.fullmatch(name)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.made, each.name))


def find(model: StreamModel, name: str) -> Savepoint:
    """A savepoint of a model.

    Raises:
        StreamError: there is none of that name; which there are.
    """
    found = listed(model.storage, model.savepoints)
    for each in found:
        if each.name == name:
            return each
    there = f"it has {', '.join(each.name for each in found)}" if found else "it has none"
    raise StreamError(f"Model {model.name}: there is no savepoint '{name}' of it; {there}.")


def next_name(taken: Iterable[str], cause: str) -> str:
    """The name of the next savepoint that is taken before something.

    >>> next_name([], MIGRATION), next_name(["before-edit-7", "mine"], MIGRATION)
    ('before-migration-1', 'before-migration-8')
    """
    numbers = (int(known[1]) for each in taken if (known := _AUTOMATIC.fullmatch(each)))
    return f"before-{cause}-{max(numbers, default=0) + 1}"


def write(model: StreamModel, savepoint: Savepoint) -> None:
    """Note a savepoint: from then on it is there."""
    text = json.dumps({"format": FORMAT, **asdict(savepoint)}, indent=1)
    model.storage.write_text(f"{folder(model, savepoint.name)}/{_FILE}", text)


def note_branches(model: StreamModel, name: str, snapshots: Mapping[str, int]) -> None:
    """Note which branches a savepoint is going to make.

    Args:
        model: the model.
        name: the savepoint's.
        snapshots: by a table's UUID the snapshot that its branch keeps.
    """
    model.storage.write_text(f"{folder(model, name)}/{_BRANCHES}", json.dumps(dict(snapshots)))


def noted_branches(model: StreamModel, name: str) -> Mapping[str, int]:
    """By a table's UUID the snapshot that its branch of a savepoint keeps, whether the savepoint was completed or not."""
    found: Mapping[str, int] = json.loads(
        model.storage.read_text(f"{folder(model, name)}/{_BRANCHES}") or "{}"
    )
    return found


def copy_savepoints(storage: Storage, path: str, to: str) -> None:
    """Copy the savepoints in the folder of a model. What they name stays where it is."""
    for name in storage.list(path):
        note = storage.read_text(f"{path}/{name}/{_FILE}") if _NAME.fullmatch(name) else None
        if note is not None:
            copy_checkpoint(storage, f"{path}/{name}/{_CHECKPOINT}", f"{to}/{name}/{_CHECKPOINT}")
            branches = storage.read_text(f"{path}/{name}/{_BRANCHES}")
            if branches is not None:
                storage.write_text(f"{to}/{name}/{_BRANCHES}", branches)
            storage.write_text(f"{to}/{name}/{_FILE}", note)


def is_complete(model: StreamModel, name: str) -> bool:
    """Whether a folder is a savepoint: its note is written last."""
    return model.storage.exists(f"{folder(model, name)}/{_FILE}")


def forget(model: StreamModel, name: str) -> None:
    """Have a savepoint be there no more. What it named is still to be let go."""
    model.storage.delete(f"{folder(model, name)}/{_FILE}")


def read(storage: Storage, path: str, name: str) -> Savepoint | None:
    """A savepoint in the folder of a model; None: there is none, or it was never completed.

    Raises:
        StreamError: as in `listed`.
    """
    return read_note(
        storage,
        f"{path}/{name}/{_FILE}",
        FORMAT,
        _made,
        what=f"the savepoint {name}",
        made=f"The savepoint {name} in {path} was made",
        to_do=f"Remove the folder {path}/{name}, or put the file back.",
    )


def _made(said: dict[str, Any]) -> Savepoint:
    tables = {kind: None if each is None else Picture(**each) for kind, each in said.pop("tables").items()}
    return Savepoint(**said, tables=tables)


def being_restored(model: StreamModel) -> Mapping[str, str | None] | None:
    """The restore that is going on, or was cut short: the savepoint's ``name``, and what was there before, ``kept_as``."""
    text = model.storage.read_text(model.restoring)
    return None if text is None else dict(json.loads(text))


def cut_short(model: StreamModel) -> str | None:
    """What to do about a restore that a process didn't end; None: there is none."""
    begun = being_restored(model)
    if begun is None:
        return None
    name, before = begun["name"], begun["kept_as"]
    back = f" To go back instead: `dbt-stream state restore {model.name} {before}`." if before else ""
    return (
        f"the restore of its savepoint '{name}' was cut short, so its state, its table and its checkpoint may be of "
        f"different times. Run it again: `dbt-stream state restore {model.name} {name}`.{back} To build the model anew: "
        f"{model.rebuild}."
    )


def check_whole(model: StreamModel) -> None:
    """Passes a model of which no restore was cut short, and no promotion of a new version. To be called before anything of
    it is read.

    Raises:
        StreamError: one was, and how to go on.
    """
    check_settled(model)
    if (problem := cut_short(model)) is not None:
        raise StreamError(f"Model {model.name}: {problem}")
