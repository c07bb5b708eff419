"""The web page under `/ui/`: its built files and their headers, and the pages that need no build.

The page itself is written in TypeScript, in the folder `ui` of the repository, and speaks only the public HTTP API.
`make ui` builds it into the folder `built` beside this file, which wheels and source distributions contain.
"""
