# SPDX-License-Identifier: Apache-2.0
"""Why a TrainJob does not train.

`judgement.explain` is the pure function from a picture to one explanation, which the command, conditions and the
dashboard share. `reader` makes pictures: of what an API server answers, or of objects at hand.
"""

from trainwright.controller.trainer.why.job.judgement import Explanation, explain
from trainwright.controller.trainer.why.reader import GivenObjects, Reader

__all__ = ["Explanation", "GivenObjects", "Reader", "explain"]
