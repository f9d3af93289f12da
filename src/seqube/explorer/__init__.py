"""The explorer: a page on this machine for loading events, writing queries and looking at what they find.

    server    the command, the token at the door, downloads
    page      the frame of the page, the query and its matches
    panels    the cube and the forecasts; live: a running pipeline's sinks
    charts    tables -> chart specs
    results   files of results -> pages, windows of time, exports
    worker    a process that does the work and can be stopped; jobs: what it can do
    sources   what can be opened, and queries to start with

The browser holds what it shows and nothing more; the server process holds schemas and opens result files by memory map; events are
in worker processes alone.
"""

from seqube.extras import need

need("explorer")
