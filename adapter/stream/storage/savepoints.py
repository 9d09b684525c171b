"""Metadata of savepoints under the storage root: small files, read without Spark.

A savepoint is a folder ``savepoints/<model>/<name>`` with a copy of the checkpoint's last entries and ``savepoint.json``,
which is written last and names the snapshots of state, changelog and table. Branches of these tables retain the snapshots.
Before the branches are created, ``branches.json`` lists them, to distinguish them from foreign branches of the same name.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..common.errors import StreamError
from ..common.metadata_files import read_metadata, write_metadata
from ..common.model import RESTORING, StreamModel
from .checkpoint import METADATA, NOTES, copy_checkpoint
from .deployments import check_no_interrupted_swap

if TYPE_CHECKING:
    from ...environment.storage import Storage

STATE, CHANGELOG, TABLE = "state", "changelog", "table"
BRANCH = "savepoint_"
"""Prefix of the branches that retain snapshots."""
MIGRATION, EDIT, RESTORE = "migration", "edit", "restore"
"""Operations before which a savepoint is taken automatically."""
_UNDER_WAY = 3_600_000
"""Milliseconds after which a savepoint that isn't complete was left by a killed process."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_AUTOMATIC = re.compile(rf"before-(?:{MIGRATION}|{EDIT}|{RESTORE})-(\d+)", re.IGNORECASE)
_FILE, _CHECKPOINT, _BRANCHES = "savepoint.json", "checkpoint", "branches.json"
_OWN = re.compile(
    rf"(?:{re.escape(RESTORING)}|([^/]+)/(?:{re.escape(_FILE)}|{re.escape(_BRANCHES)}|{_CHECKPOINT}/(?:{METADATA}|"
    rf"(?:{'|'.join(NOTES)})\.json|(?:offsets|commits|sources/\d+|sources/\d+/offsets)/\d+(?:\.compact)?)))"
    r"(?:\.[0-9a-f]{32}\.partial)?"
)
"""A file that this package writes, by its path in the folder of a model's savepoints."""


@dataclass(frozen=True)
class TableSnapshot:
    """The state of a table in a savepoint, from which it can be restored."""

    uuid: str
    """UUID of the table. A table that was dropped and created again has another one."""
    snapshot: int | None
    """The current snapshot, or None if nothing was ever written."""
    schema: int
    """Id of the current schema, which can change without a snapshot."""
    properties: Mapping[str, str]
    """The table properties that are restored with the rows and columns."""


@dataclass(frozen=True)
class Savepoint:
    """The state of a model after a micro-batch."""

    name: str
    made: int
    """Milliseconds since 1970."""
    cause: str | None
    """The operation before which the savepoint was taken automatically, or None if a user took it."""
    until: int | None
    """Milliseconds since 1970 after which the snapshots may expire; None if they don't expire."""
    query_id: str
    """Structured Streaming's id of the query."""
    batch: int
    flush: int
    """Together with `batch` the micro-batch's `Position.step`."""
    watermark: str | None
    tables: Mapping[str, TableSnapshot | None]
    """Tables by role (`STATE`, `CHANGELOG`, `TABLE`). None if there was no such table."""

    @property
    def branch(self) -> str:
        """Name of the branch that each table has for the savepoint."""
        return f"{BRANCH}{self.name}"

    @property
    def is_automatic(self) -> bool:
        """Whether the savepoint was taken automatically."""
        return self.cause is not None


def savepoint_folder(model: StreamModel, name: str) -> str:
    return f"{model.savepoints}/{name}"


def checkpoint_copy(model: StreamModel, name: str) -> str:
    """Returns the path of a savepoint's copy of the checkpoint."""
    return f"{savepoint_folder(model, name)}/{_CHECKPOINT}"


def check_name(model: StreamModel, name: str) -> None:
    """Raises if a user can't give a savepoint this name."""
    if not _NAME.fullmatch(name):
        raise StreamError(
            f"Model {model.name}: '{name}' can't be the name of a savepoint; write letters, digits, '_', '-' and '.', "
            "as in before-deploy."
        )
    if _AUTOMATIC.fullmatch(name):
        raise StreamError(
            f"Model {model.name}: '{name}' is reserved for savepoints that are taken automatically; choose another name."
        )


def is_user_savepoint(name: str) -> bool:
    """Returns whether a savepoint of this name was taken by a user, not automatically."""
    return _NAME.fullmatch(name) is not None and _AUTOMATIC.fullmatch(name) is None


def stored_savepoints(storage: Storage, path: str) -> list[Savepoint]:
    """Returns the savepoints in the folder of a model, the oldest first. Raises if the file of one can't be read."""
    found = [read_savepoint(storage, path, name) for name in storage.list(path) if _NAME.fullmatch(name)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.made, each.name))


def retaining_sources(storage: Storage, path: str) -> list[str]:
    """Returns the names of the complete savepoints in the folder of a model that retain snapshots of its sources: savepoints
    that users took, even if their files can't be read, and an automatic one that is being restored."""
    restored = storage.read_json(f"{path}/{RESTORING}").get("name")
    names = (name for name in storage.list(path) if is_user_savepoint(name) or name == restored)
    return [name for name in names if storage.exists(f"{path}/{name}/{_FILE}")]


def own_files(storage: Storage, path: str) -> dict[str, dict[str, int]]:
    """Returns the files that this package wrote in the folder of a model, by the name of the savepoint, complete or not,
    each with its modification time in milliseconds since 1970. The name is empty for files of a restore."""
    found: dict[str, dict[str, int]] = {}
    below = f"/{'/'.join(path.split('/')[-2:])}/"  # remote storage may write the root in another way
    for file, modified in sorted(storage.modification_times(path).items()):
        if own := _OWN.fullmatch(file.partition(below)[2]):
            found.setdefault(own[1] or "", {})[file] = modified
    return found


def savepoint_names(model: StreamModel) -> list[str]:
    """Returns the names of the savepoints of a model, complete or not. A folder with only foreign files is no savepoint."""
    return [name for name in own_files(model.storage, model.savepoints) if name]


def incomplete_savepoints(model: StreamModel, deleted: Collection[str] = ()) -> list[str]:
    """Returns the names of the incomplete and deleted savepoints of a model. On remote storage no lock prevents another
    process from making one, so savepoints of the last hour are included only if they are in `deleted`."""
    before = math.inf if model.storage.is_local else time.time() * 1000 - _UNDER_WAY
    return [
        name
        for name, files in own_files(model.storage, model.savepoints).items()
        if name and not is_complete(model, name) and (name in deleted or max(files.values()) < before)
    ]


def find_savepoint(model: StreamModel, name: str) -> Savepoint:
    """Returns a savepoint of a model. Raises if there is none of that name."""
    found = stored_savepoints(model.storage, model.savepoints)
    for each in found:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in found)
    raise StreamError(f"Model {model.name}: there is no savepoint '{name}' of it; it has {known or 'none'}.")


def next_name(taken: Iterable[str], cause: str) -> str:
    """Returns the name of the next automatic savepoint.

    >>> next_name([], MIGRATION), next_name(["before-edit-7", "mine"], MIGRATION)
    ('before-migration-1', 'before-migration-8')
    """
    numbers = (int(known[1]) for each in taken if (known := _AUTOMATIC.fullmatch(each)))
    return f"before-{cause}-{max(numbers, default=0) + 1}"


def write_savepoint(model: StreamModel, savepoint: Savepoint) -> None:
    """Writes the file of a savepoint, which completes it."""
    write_metadata(model.storage, f"{savepoint_folder(model, savepoint.name)}/{_FILE}", savepoint)


def note_branches(model: StreamModel, name: str, snapshots: Mapping[str, int]) -> None:
    """Records the branches that a savepoint is going to create. `snapshots`: the snapshot of each, by UUID of the table."""
    model.storage.write_text(f"{savepoint_folder(model, name)}/{_BRANCHES}", json.dumps(dict(snapshots)))


def noted_branches(model: StreamModel, name: str) -> Mapping[str, int]:
    """Returns the snapshots of a savepoint's branches, by UUID of the table, even if the savepoint isn't complete."""
    return model.storage.read_json(f"{savepoint_folder(model, name)}/{_BRANCHES}")


def copy_savepoints(storage: Storage, path: str, to: str) -> None:
    """Copies the files of the savepoints in the folder of a model. Of an incomplete savepoint it copies only the list of its
    branches, which are removed later. No snapshot is copied."""
    for name in storage.list(path):
        if storage.exists(f"{path}/{name}/{_FILE}"):
            copy_checkpoint(storage, f"{path}/{name}/{_CHECKPOINT}", f"{to}/{name}/{_CHECKPOINT}")
        for file in (_BRANCHES, _FILE):
            if (text := storage.read_text(f"{path}/{name}/{file}")) is not None:
                storage.write_text(f"{to}/{name}/{file}", text)


def is_complete(model: StreamModel, name: str) -> bool:
    """Returns whether a savepoint is complete: it has the file that is written last."""
    return model.storage.exists(f"{savepoint_folder(model, name)}/{_FILE}")


def mark_incomplete(model: StreamModel, name: str) -> None:
    """Deletes the file of a savepoint, which is incomplete from then on. Its branches and copies are removed later."""
    model.storage.delete(f"{savepoint_folder(model, name)}/{_FILE}")


def delete_files(storage: Storage, path: str, name: str | None = None) -> None:
    """Deletes the files of a savepoint in the folder of a model, or of all savepoints, and the folders that are empty then.
    Foreign files stay."""
    own = own_files(storage, path)
    for each in own if name is None else [name]:
        for file in own.get(each, ()):
            storage.delete(file)
        for folder in (f"{path}/{each}/{_CHECKPOINT}", f"{path}/{each}") if each else ():
            if not storage.modification_times(folder):
                storage.delete(folder)
    if name is None and not storage.modification_times(path):
        storage.delete(path)


def read_savepoint(storage: Storage, path: str, name: str) -> Savepoint | None:
    """Returns a savepoint in the folder of a model, or None if it was never completed. Raises if it can't be read."""
    return read_metadata(
        storage,
        f"{path}/{name}/{_FILE}",
        _parse,
        what=f"the savepoint {name}",
        made=f"The savepoint {name} in {path} was made",
        to_do=f"Remove the folder {path}/{name}, or put the file back.",
    )


def _parse(content: dict[str, Any]) -> Savepoint:
    tables = {
        kind: None if each is None else TableSnapshot(**each) for kind, each in content.pop("tables").items()
    }
    return Savepoint(**content, tables=tables)


def restore_in_progress(model: StreamModel) -> Mapping[str, str | None] | None:
    """Returns the running or interrupted restore: ``name`` is the restored savepoint, ``kept_as`` the savepoint of the state
    before; None if there is no restore."""
    text = model.storage.read_text(model.restoring)
    return None if text is None else dict(json.loads(text))


def interrupted_restore_problem(model: StreamModel) -> str | None:
    """Returns a sentence on how to finish or undo an interrupted restore of a model, or None if there is none."""
    begun = restore_in_progress(model)
    if begun is None:
        return None
    name, before = begun["name"], begun["kept_as"]
    back = f" To go back instead: `dbt-stream state restore {model.name} {before}`." if before else ""
    return (
        f"the restore of its savepoint '{name}' was interrupted, so its state, its table and its checkpoint may be of "
        f"different times. Run it again: `dbt-stream state restore {model.name} {name}`.{back} To rebuild the model: "
        f"{model.rebuild}."
    )


def check_not_interrupted(model: StreamModel) -> None:
    """Raises if a restore or a swap of a model was interrupted. Called before the model is read."""
    check_no_interrupted_swap(model)
    if (problem := interrupted_restore_problem(model)) is not None:
        raise StreamError(f"Model {model.name}: {problem}")
