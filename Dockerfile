# SPDX-License-Identifier: Apache-2.0
# The manager's image: `make build-image IMG=…`. More plugins: `PLUGINS="distribution==version …"`.
# The initializers' images: `make build-image TARGET=dataset-initializer IMG=…`, and the same with model-initializer.
# The lock has wheels for this Python; both stages need the same, since the second takes over the first's environment.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
ARG PLUGINS=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv /opt/trainwright
COPY hack/requirements-image.txt hack/requirements-image.txt
RUN /opt/trainwright/bin/python -m pip install --require-hashes --requirement hack/requirements-image.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY hack/control-plane hack/control-plane
COPY config/runtimes config/runtimes
COPY api api
COPY codegen codegen
COPY plugins plugins
COPY controller controller
COPY trainwright trainwright
RUN /opt/trainwright/bin/python -m pip install --no-deps --no-build-isolation .
# A plugin gets what it needs, but changes no version that is locked.
RUN if [ -n "$PLUGINS" ]; then \
        /opt/trainwright/bin/python -m pip freeze --exclude trainwright > locked.txt && \
        /opt/trainwright/bin/python -m pip install --constraint locked.txt $PLUGINS; \
    fi
# A plugin that does not fit fails here and not in the cluster.
RUN /opt/trainwright/bin/trainwright plugins
RUN /opt/trainwright/bin/python -m pip uninstall --yes --quiet setuptools pip

# What Kubeflow Trainer's images of initializers offer: bash, a `python` with the program, and /app, in which the Kubeflow
# SDK starts `python -m pkg.initializers.dataset`. Root by default as there, since volumes belong to root; any other user
# works, too, with a read-only root and no home.
FROM python:${PYTHON}-slim AS initializer
COPY --from=build /opt/trainwright /opt/trainwright
COPY hack/requirements-initializers.txt /tmp/requirements.txt
RUN python -m pip --python /opt/trainwright/bin/python install --no-cache-dir --root-user-action ignore --require-hashes --requirement /tmp/requirements.txt && \
    rm /tmp/requirements.txt
WORKDIR /app
COPY hack/initializers/pkg pkg
ENV PATH=/opt/trainwright/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

FROM initializer AS dataset-initializer
ENTRYPOINT ["python", "-m", "pkg.initializers.dataset"]

FROM initializer AS model-initializer
ENTRYPOINT ["python", "-m", "pkg.initializers.model"]

# The last stage is built if none is named.
FROM python:${PYTHON}-slim AS manager
COPY --from=build /opt/trainwright /opt/trainwright
# Its root is read-only in the cluster; bytecode was made when it was installed.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/opt/trainwright/bin/trainwright"]
