"""Metadata of blue/green deployments under the storage root: small files, read without Spark.

The new version of a model is the same model under the name ``<model>__deploy_<id>``, with its own table, state, changelog
and checkpoint. After its promotion the new version has the model's name, and the old version is ``<model>__previous_<id>``.
The id is derived from the table that is to be replaced. So after a promotion the next deployment has another id: a table
keeps its folder when it is renamed, and two tables must not share a folder. Two processes that begin a deployment at once
begin the same one. If a new version is dropped and the same table stays, the next deployment has the same id.

``deployments/<model>/deployment.json`` describes the deployment. From before the first rename of a table until after the
last, the file also has the swap, and copies of the checkpoints and savepoints are next to it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...query.program import CHANGES
from ..common.errors import StreamError
from ..common.identifiers import joined_name, parts, with_suffix
from ..common.metadata_files import read_metadata, write_metadata
from ..common.model import NEW, PREVIOUS, STATE, StreamModel, file_key

if TYPE_CHECKING:
    from ...environment.storage import Storage

STAGED, PROMOTED = "staged", "promoted"
"""Phases: the new version has its own name, or has the model's name."""
_FILE = "deployment.json"
_UNDO_COMMAND = {PROMOTED: "rollback", STAGED: "promote"}
_COMMAND = {PROMOTED: "promote", STAGED: "rollback"}


@dataclass(frozen=True)
class Swap:
    """A swap of two versions' names in progress."""

    to: str
    """The phase after the swap: `PROMOTED` or `STAGED`."""
    gives: Mapping[str, str | None]
    """UUIDs of the tables that lose the model's names, by role. None if there is no such table."""
    takes: Mapping[str, str | None]
    """UUIDs of the tables that get the model's names, by role. None if there is no such table."""

    @property
    def reverse(self) -> Swap:
        """The swap that reverts this one, complete or not."""
        return Swap(STAGED if self.to == PROMOTED else PROMOTED, gives=self.takes, takes=self.gives)


@dataclass(frozen=True)
class Deployment:
    """A deployment of a new version of a model."""

    id: str
    model: str
    target: str
    """The full name of the model's table."""
    begun: int
    """Milliseconds since 1970."""
    phase: str = STAGED
    promoted: int | None = None
    """When the new version last got the model's name, in milliseconds since 1970."""
    swap: Swap | None = None

    @property
    def new(self) -> str:
        """The table of the new version while it is staged."""
        return with_suffix(self.target, f"{NEW}{self.id}")

    @property
    def previous(self) -> str:
        """The table of the old version once the new one is promoted."""
        return with_suffix(self.target, f"{PREVIOUS}{self.id}")

    @property
    def other_table(self) -> str:
        """The table of the version that doesn't have the model's name."""
        return self.previous if self.phase == PROMOTED else self.new


def new_deployment(model: StreamModel, uuid: str) -> Deployment:
    """Returns a new deployment of a model, without writing its file. `uuid`: UUID of the model's table."""
    number = hashlib.sha256(uuid.encode()).hexdigest()[:8]
    return Deployment(number, model.name, model.target, int(time.time() * 1000))


def version_of_model(model: StreamModel, table: str) -> StreamModel:
    """Returns the model with another table, as one of its versions."""
    return replace(model, target=table, state=with_suffix(table, STATE))


def deployment_folder(storage: Storage, table: str) -> str:
    """Returns the folder of the deployment of a model, by its table."""
    return f"{storage.deployments}/{file_key(table)}"


def read_deployment(storage: Storage, table: str) -> Deployment | None:
    """Returns the deployment of a model, by its table, or None. Raises if it can't be read."""
    return _read(storage, deployment_folder(storage, table), table)


def _read(storage: Storage, place: str, table: str) -> Deployment | None:
    return read_metadata(
        storage,
        f"{place}/{_FILE}",
        _parse,
        what=f"the deployment of {table}",
        made=f"The deployment of {table} was begun",
        to_do="Put the file back, or delete it and drop the tables that it describes.",
    )


def _parse(content: dict[str, Any]) -> Deployment:
    swap = content.pop("swap")
    return Deployment(**content, swap=None if swap is None else Swap(**swap))


def write_deployment(storage: Storage, deployment: Deployment) -> None:
    """Writes the file of a deployment."""
    write_metadata(storage, f"{deployment_folder(storage, deployment.target)}/{_FILE}", deployment)


def copies_folder(storage: Storage, table: str) -> str:
    """Returns the folder with the copies of checkpoints and savepoints for a swap."""
    return f"{deployment_folder(storage, table)}/copies"


def delete_deployment(storage: Storage, deployment: Deployment) -> None:
    """Deletes the files of a deployment, and its folder if nothing else is there."""
    place = deployment_folder(storage, deployment.target)
    for each in (f"{place}/{_FILE}", copies_folder(storage, deployment.target)):
        storage.delete(each)
    if not storage.modification_times(place):
        storage.delete(place)


def interrupted_swap_problem(model: StreamModel) -> str | None:
    """Returns a sentence on how to finish or undo an interrupted swap of a model, or None if there is none."""
    found = read_deployment(model.storage, model.target)
    if found is None or found.swap is None:
        return None
    done, undone = _COMMAND[found.swap.to], _UNDO_COMMAND[found.swap.to]
    return (
        f"`dbt-stream deploy {done} {model.name}` was interrupted, so its table, its state and its checkpoint may be of two "
        f"versions. To finish it: `dbt-stream deploy {done} {model.name}`. To undo it: `dbt-stream deploy {undone} "
        f"{model.name}`."
    )


def check_no_interrupted_swap(model: StreamModel) -> None:
    """Raises if a swap of a model was interrupted. Called before the model is read or dropped."""
    if (problem := interrupted_swap_problem(model)) is not None:
        raise StreamError(f"Model {model.name}: {problem}")


def tables_being_swapped(storage: Storage) -> set[str]:
    """Returns the full names of all tables of interrupted swaps. Raises if a deployment can't be read."""
    names = storage.list(storage.deployments)
    found = (_read(storage, f"{storage.deployments}/{name}", name) for name in names)
    swapped = [each for each in found if each is not None and each.swap is not None]
    return {table for each in swapped for table in (each.target, each.new, each.previous)}


def deployment_of_table(storage: Storage, table: str) -> Deployment | None:
    """Returns the deployment by which a table or changelog was swapped, or None."""
    *above, last = parts(table)
    for name in dict.fromkeys((table, joined_name([*above, last.removesuffix(CHANGES)]))):
        found = read_deployment(storage, name)
        if found is not None and found.promoted is not None:
            return found
    return None
