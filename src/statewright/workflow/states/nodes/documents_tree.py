"""`generate_documents_tree`: lists the documents of data sources, for an iteration over them for example."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from statewright.errors import ExpressionError
from statewright.workflow.states.model import CustomNode
from statewright.workflow.states.nodes.config import ConfigFault, ConfigReader
from statewright.workflow.states.nodes.documents import DocumentReader
from statewright.workflow.states.nodes.patterns import Matcher, filter_matcher, path_matcher
from statewright.workflow.states.nodes.resources import NodeResources
from statewright.workflow.states.performers import Call, Outcome

OUTPUT_KEY: Final = "documents_tree"
_PATTERN: Final = "documents_filtering_pattern"
_FILTER: Final = "documents_filter"


def _all(path: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class DocumentsTreeConfig:
    """What a node is told."""

    datasource_ids: tuple[str, ...] = ()
    wants: Matcher = _all
    with_content: bool = False
    output_key: str = OUTPUT_KEY


class DocumentsTree:
    """Lists documents; asks nobody."""

    def __init__(self, config: DocumentsTreeConfig, resources: NodeResources) -> None:
        self._config = config
        self._resources = resources

    async def perform(self, call: Call) -> Outcome:
        return Outcome({self._config.output_key: await asyncio.to_thread(self._documents)})

    def _documents(self) -> list[dict[str, Any]]:
        config, found = self._config, self._resources.datasource
        reader = DocumentReader(self._resources.limits, config.wants, config.with_content)
        return [one for name in config.datasource_ids for one in reader.documents(name, found(name))]


def read(definition: CustomNode) -> tuple[DocumentsTreeConfig, list[ConfigFault]]:
    """The config of a node, and what is wrong or odd about it."""
    reader = ConfigReader(definition.config)
    ids = tuple(dict.fromkeys((*reader.texts("datasource_id"), *reader.texts("datasource_ids"))))
    if not ids and not reader.faults:
        reader.fault("datasource_ids", "There is no data source.", "Name at least one in datasource_ids.")
    config = DocumentsTreeConfig(
        datasource_ids=ids,
        wants=_read_filters(reader),
        with_content=reader.flag("include_content"),
        output_key=reader.text("output_key") or OUTPUT_KEY,
    )
    reader.finish()
    return config, reader.faults


def check(definition: CustomNode) -> list[ConfigFault]:
    return read(definition)[1]


def make(definition: CustomNode, resources: NodeResources) -> DocumentsTree:
    return DocumentsTree(read(definition)[0], resources)


def _read_filters(reader: ConfigReader) -> Matcher:
    pattern = reader.text(_PATTERN)
    lines = [line for text in reader.texts(_FILTER) for line in text.splitlines()]
    if pattern and lines:
        reader.fault(_FILTER, f"{_PATTERN} and {_FILTER} exclude each other.", "Keep one of them.")
        return _all
    try:
        return path_matcher(pattern) if pattern else filter_matcher(lines) if lines else _all
    except ExpressionError as error:
        reader.fault(_PATTERN if pattern else _FILTER, str(error), "Correct the pattern.")
        return _all
