FROM python:3.13-slim AS build

WORKDIR /source
COPY LICENSE README.md pyproject.toml ./
COPY shared shared
COPY node node
COPY observer observer

# Installing the wheel by its path, not by name: an index can never answer with a `tontine` of its own.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/tontine \
    && /opt/tontine/bin/pip install --no-cache-dir "$(echo /wheels/tontine-*.whl)[observer]"


FROM python:3.13-slim

# /app is where an image built on this one puts its own task modules, /run/tontine is for --live-file.
RUN useradd --create-home --uid 10001 --user-group tontine \
    && install --directory --owner=tontine --group=tontine /app /run/tontine

# The user's own, pip included: `RUN pip install ...` in an image built on this one needs no root, and installs beside
# tontine. At run time a read-only root file system takes that back.
COPY --from=build --chown=tontine:tontine /opt/tontine /opt/tontine
ENV PATH=/opt/tontine/bin:$PATH \
    PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1 \
    TONTINE_EMBEDDED=0

WORKDIR /app
# By number: Kubernetes cannot tell from a name that it is not root.
USER 10001:10001

# A node reaps what its tasks leave behind; the other commands do not: run with an init, as `init: true` in docker-compose.yml or `docker run --init` do.
ENTRYPOINT ["tontine"]
