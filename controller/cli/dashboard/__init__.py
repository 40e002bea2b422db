# SPDX-License-Identifier: Apache-2.0
"""`trainwright dashboard`: TrainJobs in a browser.

`contract` is what the page reads; `page/` holds the page's files.
"""
