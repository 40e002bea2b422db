# SPDX-License-Identifier: Apache-2.0
# The manager's image: `make build-image IMG=…`. More plugins: `PLUGINS="distribution==version …"`.
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

FROM python:${PYTHON}-slim
COPY --from=build /opt/trainwright /opt/trainwright
# Its root is read-only in the cluster; bytecode was made when it was installed.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/opt/trainwright/bin/trainwright"]
