"""A server for experiments: print its URL, and answer requests until it is stopped."""

from __future__ import annotations

import argparse
import threading

from tests.provider_server import ProviderServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.provider_server", description=__doc__)
    parser.add_argument("--answer", action="append", help="text of an answer; repeat it for several answers in turn")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 selects a free one")
    options = parser.parse_args()
    with ProviderServer(options.answer or ["Hello."], port=options.port, repeat_last=True) as server:
        print(server.url, flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
