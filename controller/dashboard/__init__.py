# SPDX-License-Identifier: Apache-2.0
"""A page about TrainJobs: what answers its questions, and the server that serves it to one browser.

`service.py` answers from one watch, `contract.py` says what the page reads, `page/` holds the page's files.
"""
