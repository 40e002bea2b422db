# SPDX-License-Identifier: Apache-2.0
"""Webhooks that are answered in the process of the API server, without a socket."""

import logging
from collections.abc import Mapping

from trainwright.controller.local.apiserver.admission.calling import Answerer, CallError
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.runtime.webhook.review import MalformedReview, read_review, write_review

log = logging.getLogger(__name__)


def answerer(handlers: Mapping[str, AdmissionHandler]) -> Answerer:
    """A function that answers reviews by the handlers of a webhook server, by path."""

    async def answer(path: str, body: bytes) -> bytes:
        handler = handlers.get(path)
        if handler is None:
            raise CallError(f"no webhook answers {path}")
        try:
            review = read_review(body)
            return write_review(review, await handler.answer(review))
        except MalformedReview as error:
            raise CallError(str(error)) from error
        except Exception as error:
            log.exception("the webhook %s failed", path)
            raise CallError(f"the webhook failed with {type(error).__name__}; the log has the reason") from error

    return answer
