"""A new version of a model beside the old one, as it is noted under the storage root: small files, read without Spark.

It is the same model under another name, ``<model>__deploy_<id>``, with a table, a state, a changelog and a checkpoint of
its own. Once it is promoted it has the model's name, and the old one is ``<model>__previous_<id>``. The id is another one
for each deployment: a table keeps its folder when it is renamed, and no two may share one.

``deployments/<model>/deployment.json`` says what there is. While names change it says from which table to which, from before
the first change until after the last, and beside it is a copy of what a stream needs of the checkpoints and savepoints.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ..common.errors import StreamError
from ..common.identifiers import joined, parts, with_suffix
from ..common.metadata_files import read_note
from ..common.model import CHANGES, NEW, PREVIOUS, STATE, StreamModel, file_key

if TYPE_CHECKING:
    from ...environment.storage import Storage

FORMAT = 1
"""Of ``deployment.json``."""
STAGED, PROMOTED = "staged", "promoted"
"""The new version is beside the model, or has its name and the old one is beside it."""
_FILE = "deployment.json"
_UNDO = {PROMOTED: "rollback", STAGED: "promote"}
_DOES = {PROMOTED: "promote", STAGED: "rollback"}


@dataclass(frozen=True)
class Swap:
    """A change of names that is going on."""

    to: str
    """What comes of it: `PROMOTED` or `STAGED`."""
    gives: Mapping[str, str | None]
    """The UUIDs of the tables that give the model's names away, by what they are; None: there is none."""
    takes: Mapping[str, str | None]
    """Those of the tables that take them."""

    @property
    def undone(self) -> Swap:
        """What brings back what was there before, however much of it is done."""
        return Swap(STAGED if self.to == PROMOTED else PROMOTED, gives=self.takes, takes=self.gives)


@dataclass(frozen=True)
class Deployment:
    """A new version of a model."""

    id: str
    model: str
    """The model's name."""
    target: str
    """Its table, in full."""
    begun: int
    """Milliseconds since 1970."""
    phase: str = STAGED
    promoted: int | None = None
    """When it got the model's name last, in milliseconds since 1970."""
    swap: Swap | None = None

    @property
    def new(self) -> str:
        """The table of the new version, as long as it is beside the model."""
        return with_suffix(self.target, f"{NEW}{self.id}")

    @property
    def previous(self) -> str:
        """The table of the old one, once the new one has its name."""
        return with_suffix(self.target, f"{PREVIOUS}{self.id}")

    @property
    def beside(self) -> str:
        """The table that is beside the model's."""
        return self.previous if self.phase == PROMOTED else self.new


def begin(model: StreamModel) -> Deployment:
    """A deployment of a model, which isn't noted yet."""
    return Deployment(uuid.uuid4().hex[:8], model.name, model.target, int(time.time() * 1000))


def version(model: StreamModel, table: str) -> StreamModel:
    """The model under the name of another table."""
    return replace(model, target=table, state=with_suffix(table, STATE))


def folder(storage: Storage, table: str) -> str:
    """Where what concerns the deployment of a model is kept."""
    return f"{storage.deployments}/{file_key(table)}"


def read(storage: Storage, table: str) -> Deployment | None:
    """The deployment of a model, by its table; None: there is none.

    Raises:
        StreamError: it was begun by a newer version of this package, or can't be read.
    """
    return read_note(
        storage,
        f"{folder(storage, table)}/{_FILE}",
        FORMAT,
        _made,
        what=f"the deployment of {table}",
        made=f"The deployment of {table} was begun",
        to_do="Put the file back, or delete it and drop the tables that it was about.",
    )


def _made(said: dict[str, Any]) -> Deployment:
    swap = said.pop("swap")
    return Deployment(**said, swap=None if swap is None else Swap(**swap))


def write(storage: Storage, deployment: Deployment) -> None:
    """Note a deployment."""
    text = json.dumps({"format": FORMAT, **asdict(deployment)}, indent=1)
    storage.write_text(f"{folder(storage, deployment.target)}/{_FILE}", text)


def forget(storage: Storage, deployment: Deployment) -> None:
    """Have nothing noted of a deployment any more."""
    storage.delete(f"{folder(storage, deployment.target)}/{_FILE}")
    storage.delete(folder(storage, deployment.target))


def cut_short(model: StreamModel) -> str | None:
    """What to do about a change of names that a process didn't end; None: there is none."""
    found = read(model.storage, model.target)
    if found is None or found.swap is None:
        return None
    done, undone = _DOES[found.swap.to], _UNDO[found.swap.to]
    return (
        f"`dbt-stream deploy {done} {model.name}` was cut short, so its table, its state and its checkpoint may be of two "
        f"versions. To finish it: `dbt-stream deploy {done} {model.name}`. To undo it: `dbt-stream deploy {undone} "
        f"{model.name}`."
    )


def check_settled(model: StreamModel) -> None:
    """Passes a model whose name isn't in the middle of going from one version to another. To be called before anything
    of it is read or dropped.

    Raises:
        StreamError: it is, and how to go on.
    """
    if (problem := cut_short(model)) is not None:
        raise StreamError(f"Model {model.name}: {problem}")


def in_between(storage: Storage) -> set[str]:
    """The tables, in full, whose names are in the middle of going to others."""
    found: set[str] = set()
    for name in storage.list(storage.deployments):
        text = storage.read_text(f"{storage.deployments}/{name}/{_FILE}")
        if text is not None and (said := json.loads(text)).get("swap") is not None:
            target = str(said["target"])
            found |= {target, *(with_suffix(target, f"{each}{said['id']}") for each in (NEW, PREVIOUS))}
    return found


def of_table(storage: Storage, table: str) -> Deployment | None:
    """The deployment by which a table, or that of a model's changes, is another one than it was; None: there is none."""
    *above, last = parts(table)
    for name in dict.fromkeys((table, joined([*above, last.removesuffix(CHANGES)]))):
        found = read(storage, name)
        if found is not None and found.promoted is not None:
            return found
    return None
