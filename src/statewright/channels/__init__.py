"""Channels, which are the rules by which the values of the state change at the end of a superstep."""

from statewright.channels.channel import MISSING, Channel, Conflict, Overwrite, find_overwrite, is_overwrite
from statewright.channels.copies import (
    CONTAINERS,
    COPIED_UPDATES,
    copy_argument,
    copy_container,
    copy_fields,
    copy_in_place,
    copy_update,
    copy_writes,
)
from statewright.channels.delta import Added, Merged
from statewright.channels.kinds import (
    AnyValue,
    Append,
    Barrier,
    Ephemeral,
    LastValue,
    Reduced,
    Reducer,
    Topic,
    Untracked,
)
from statewright.channels.messages import MessageBatch, Messages, add_messages, without_derived_ids
from statewright.channels.reducers import (
    AppendReducer,
    EphemeralReducer,
    OverwriteReducer,
    append,
    channel_for,
    is_reducer,
    overwrite,
)
from statewright.channels.replay import apply_change, difference

__all__ = [
    "CONTAINERS",
    "COPIED_UPDATES",
    "MISSING",
    "Added",
    "AnyValue",
    "Append",
    "AppendReducer",
    "Barrier",
    "Channel",
    "Conflict",
    "Ephemeral",
    "EphemeralReducer",
    "LastValue",
    "Merged",
    "MessageBatch",
    "Messages",
    "Overwrite",
    "OverwriteReducer",
    "Reduced",
    "Reducer",
    "Topic",
    "Untracked",
    "add_messages",
    "append",
    "apply_change",
    "channel_for",
    "copy_argument",
    "copy_container",
    "copy_fields",
    "copy_in_place",
    "copy_update",
    "copy_writes",
    "difference",
    "find_overwrite",
    "is_overwrite",
    "is_reducer",
    "overwrite",
    "without_derived_ids",
]
