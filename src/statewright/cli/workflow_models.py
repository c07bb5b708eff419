"""Who answers in a workflow by the command line. Who else does, the workflow finds in its file and its project."""

from __future__ import annotations

from collections.abc import Mapping

from statewright.cli.models import Models, PinnedModel
from statewright.models import ChatModel
from statewright.project import Project
from statewright.workflow.states.language.model import Definition


def models_of(definition: Definition, project: Project, models: Models) -> Mapping[str, ChatModel] | None:
    """The models of the command line by the names of assistants; None if it names none.

    They answer whatever model the file names. Raises WrongUse for what cannot be connected, and for a name that no
    assistant has.
    """
    models.check_names([one.id for one in definition.assistants], "Assistants")
    wanted = {**({"default": models.everybody} if models.everybody is not None else {}), **models.by_name}
    return {name: PinnedModel(models.connect(model, project)) for name, model in wanted.items()} or None
