"""Reading and writing the files of recordings.

A file is a line of text with the number of the format, and a tree of records as a `Serde` writes it. Times are left
out, including those of timers, and ids are replaced (`names`), so that two recordings of the same calls are equal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from statewright.errors import NewerFormat, SerdeError, StorageError
from statewright.serde.serde import Serde
from statewright.testing.replay.codecs import replay_serde
from statewright.testing.replay.names import Names
from statewright.testing.replay.records import Recording
from statewright.testing.replay.states import add_fingerprints

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph

FORMAT: Final = 1
"""The format that this version writes. It reads no other, because a test can be recorded again at any time."""
_HEAD: Final = b"statewright replay "


def write_recording(path: Path, recording: Recording, names: Names, serde: Serde) -> None:
    """Write a file atomically."""
    renamed: Recording = serde.decode(names.data(serde.encode(recording, "recording")))
    for call in renamed.calls:
        add_fingerprints(call)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(_HEAD + str(FORMAT).encode() + b"\n" + serde.encode(renamed, "recording"))
    os.replace(temporary, path)


def read_recording(path: str | os.PathLike[str], app: CompiledGraph, *, serde: Serde | None = None) -> Recording:
    """Return the contents of a file, for inspection.

    Raises NewerFormat for a file of a newer version of Statewright; SerdeError for a file of an older version, for a
    file that is not a recording, and for values of types that the graph does not declare.
    """
    path = Path(path)
    head, _, body = path.read_bytes().partition(b"\n")
    if not head.startswith(_HEAD) or not head.removeprefix(_HEAD).isdigit():
        raise SerdeError(f"{path}", "it is not a recording of Statewright. Make one with statewright.testing.record")
    version = int(head.removeprefix(_HEAD))
    if version > FORMAT:
        raise NewerFormat(f"{path}", version, FORMAT)
    if version < FORMAT:
        raise SerdeError(f"{path}", f"it has format {version}, and this version reads {FORMAT}. Record it again")
    return _decode(path, body, replay_serde(app, serde))


def _decode(path: Path, body: bytes, serde: Serde) -> Recording:
    try:
        recording = serde.decode(body)
    except SerdeError:
        raise
    except StorageError as error:
        raise SerdeError(f"{path}", "it is cut short, or was changed. Record it again") from error
    if not isinstance(recording, Recording):
        raise SerdeError(f"{path}", "it does not contain a recording. Record it again")
    return recording
