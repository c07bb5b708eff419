"""Take the pictures of the web page for its guide: python scripts/pictures [--only NAME...] [--to FOLDER]

A server runs the graphs of this folder and of `examples/` on a clock of its own, so that every performance ends with
the same runs at the same times; then Chromium opens the page in the views of `shots.py`. The pictures in the guide were
taken with the fonts Inter and JetBrains Mono; without them the page takes others.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from history import NOW, perform, perform_last_half_hour
from png import join
from shots import PICTURES, open_browser, take
from stage import open_stage

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def main() -> int:
    parser = argparse.ArgumentParser(prog="pictures", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these pictures only")
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of the pictures")
    parser.add_argument("--brief", action="store_true", help="without the runs of the day before, which is quicker")
    parser.add_argument("--hold", action="store_true", help="let the server run until Ctrl-C, to look around")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    folder = options.to.resolve()
    executable = os.environ.get("STATEWRIGHT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        print("Chromium is missing. Install it, or set STATEWRIGHT_CHROMIUM to its path.", file=sys.stderr)
        return 1
    logging.getLogger().addHandler(logging.NullHandler())
    with open_stage() as stage:
        runs = perform_last_half_hour(stage) if options.brief else perform(stage)
        with open_browser(executable) as browser:
            for shots in PICTURES:
                name = shots[0].name
                if not options.only or name in options.only:
                    picture = join([take(browser, stage.url, shot, runs, NOW) for shot in shots])
                    (folder / f"{name}.png").write_bytes(picture)
                    print(f"{name}.png: {len(picture) / 1000:.0f} kB", flush=True)
        while options.hold:
            print(f"{stage.url}/ui/", runs, flush=True)
            time.sleep(3600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
