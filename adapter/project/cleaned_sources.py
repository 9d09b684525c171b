"""Checks sources whose files Spark moves or removes once a stream has read them (``cleanSource``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from ..sources.file_options import is_pattern, pattern_prefix
from ..sources.stream_source import sources_in, stream_source
from ..stream.common.model import StreamModel, StreamSource, plain_path
from ..stream.sources.cleaned_files import cleaned_by_others, cleaned_folders, cleaning_mode
from ..stream.storage.checkpoint import read_checkpoint


def check_cleaned_sources(model: StreamModel, node: Mapping[str, Any], graph: Any, is_new: bool) -> None:
    """Raises if a source's files are cleaned while another node reads them or the model would read them again.

    Args:
        is_new: whether its stream begins with this run.
    """
    for source in model.sources:
        if (action := cleaning_mode(source)) is None:
            _check_files_not_cleaned(model, source, node, graph)
            continue
        name = getattr(stream_source(source.relation), "name", source.relation)
        begins = f"Model {model.name}: its source {name} has the option cleanSource: {action}, so"
        own = [
            f"its other source {each.name or each.relation}"
            for each in model.sources
            if each is not source and each.is_files and may_share_files(source, each)
        ]
        if others := own + _other_readers(_sources_sharing_files(source, graph), node, graph):
            raise DbtRuntimeError(
                f"{begins} files are removed once this model has read them, and {', '.join(others)} "
                f"{'read' if len(others) > 1 else 'reads'} them too. Leave cleanSource out, or have one model read "
                "the source and the others that model."
            )
        if not is_new or model.bootstrap is not None:
            continue
        checkpoint = read_checkpoint(model.storage, model.checkpoint)
        has_read = checkpoint is not None and checkpoint.planned is not None
        goes_on = ", or let the model continue without a rebuild" if has_read else ""
        put_back = (
            "Put the files back and leave cleanSource out for this run (without the files, it begins with those that are "
            f"there){goes_on}."
        )
        # A model that was reset has no checkpoint.
        if model.is_deployment_version or has_read or _shares_files(source, cleaned_folders(model)):
            raise DbtRuntimeError(
                f"{begins} the files that it has read are gone, and a rebuilt table would lack their rows. {put_back}"
            )
        for key, folders in cleaned_by_others(model).items():
            if _shares_files(source, folders):
                raise DbtRuntimeError(
                    f"{begins} files were removed once {key} had read them (this model under another name, or of another "
                    f"target), and its table would lack their rows. {put_back}"
                )


def _check_files_not_cleaned(
    model: StreamModel, source: StreamSource, node: Mapping[str, Any], graph: Any
) -> None:
    """Raises if the files of a folder are cleaned by another node, which reads them through another source."""
    for unique_id, each in _sources_sharing_files(source, graph).items():
        action = cleaning_mode(each)
        if action is not None and (others := _other_readers([unique_id], node, graph)):
            raise DbtRuntimeError(
                f"Model {model.name}: files of its source {source.name or source.relation} are removed once "
                f"{', '.join(others)} has read them, by the option cleanSource: {action} of another source. Leave "
                "cleanSource out there, or read that model."
            )


def _sources_sharing_files(source: StreamSource, graph: Any) -> dict[str, StreamSource]:
    """Returns the sources in dbt's graph that may have a file in common with a folder, by unique id."""
    return {
        unique_id: found
        for unique_id, each in (graph or {}).get("sources", {}).items()
        for declared in sources_in(str(each.get("relation_name")))
        if declared.is_files
        for found in [
            StreamSource(
                declared.relation, declared.options["path"], declared.format, options=declared.options
            )
        ]
        if source.is_files and may_share_files(source, found)
    }


def _other_readers(sources: Collection[str], node: Mapping[str, Any], graph: Any) -> list[str]:
    """Returns the names of the project's other models, snapshots and so on that read one of the sources."""
    read = {*sources}
    nodes = [
        each
        for each in (graph or {}).get("nodes", {}).values()
        if each.get("resource_type") not in ("test", "unit_test")
    ]
    found: dict[str, str] = {}
    while new := [
        each
        for each in nodes
        if each["unique_id"] not in found
        and read.intersection((each.get("depends_on") or {}).get("nodes", ()))
    ]:
        for each in new:
            is_ephemeral = (each.get("config") or {}).get("materialized") == "ephemeral"
            found[each["unique_id"]] = "" if is_ephemeral else str(each["name"])
            if is_ephemeral:
                # An ephemeral model is compiled into the models that read it.
                read.add(each["unique_id"])
    found.pop(node["unique_id"], None)
    return sorted(filter(None, found.values()))


def _shares_files(source: StreamSource, folders: Collection[str]) -> bool:
    """Returns whether a source may have files in common with one of the folders, or patterns of folders."""
    return any(may_share_files(StreamSource("", folder, source.format), source) for folder in folders)


def may_share_files(one: StreamSource, other: StreamSource) -> bool:
    """Returns whether two folders, or patterns of folders, may have a file in common.

    >>> bids = StreamSource("bids", "/in/bids", "json")
    >>> paths = ("file:///in/bids/", "/in/*", "/in/{asks,bids}", "/in/bids/*.json", "/in/bids/day=1", "/in", "/in/bids/x/*")
    >>> [may_share_files(bids, StreamSource("other", path, "json")) for path in paths]
    [True, True, True, True, True, False, False]
    >>> may_share_files(bids, StreamSource("other", "/in", "json", options={"recursiveFileLookup": "true"}))
    True
    """
    return _may_read(one, other) or _may_read(other, one)


def _may_read(source: StreamSource, other: StreamSource) -> bool:
    """Returns whether a source may read files below the path of another one. Spark reads a folder, its subfolders that
    name partitions, and all subfolders if the source says so."""
    above, below = plain_path(source.location), plain_path(other.location)
    prefix = pattern_prefix(below)
    if is_pattern(above):
        return prefix.startswith(pattern_prefix(above))
    if not f"{prefix}/".startswith(f"{above}/"):
        return False
    between = prefix[len(above) :]
    folders = (between.rpartition("/")[0] if is_pattern(below) else between).split("/")
    return source.option_is("recursiveFileLookup", "true") or all("=" in each for each in folders if each)
