FROM python:3.13-slim AS build

WORKDIR /source
COPY LICENSE README.md pyproject.toml ./
COPY shared shared
COPY node node
COPY observer observer

# Installing the wheel by its path, not by name: an index can never answer with a `tontine` of its own.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/tontine \
    && /opt/tontine/bin/pip install --no-cache-dir "$(echo /wheels/tontine-*.whl)[observer]" \
    && /opt/tontine/bin/pip uninstall --yes pip


FROM python:3.13-slim

RUN useradd --create-home --uid 10001 tontine
COPY --from=build /opt/tontine /opt/tontine
ENV PATH=/opt/tontine/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TONTINE_EMBEDDED=0

# Where an image built on this one puts its own task modules.
WORKDIR /app
USER tontine

# A node reaps what its tasks leave behind; the other commands do not: run with an init, as `init: true` in docker-compose.yml or `docker run --init` do.
ENTRYPOINT ["tontine"]
