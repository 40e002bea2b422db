# SPDX-License-Identifier: Apache-2.0
"""A page about TrainJobs: what answers its questions, and the server that serves it to one browser.

`service.py` answers from one watch, `contract.py` says what the page reads, `page/` holds the page's files.
"""

from trainwright.controller.dashboard.keys import KeptKeys, is_free
from trainwright.controller.dashboard.serve import embedded, server_of
from trainwright.controller.dashboard.server import Server

__all__ = ["KeptKeys", "Server", "embedded", "is_free", "server_of"]
