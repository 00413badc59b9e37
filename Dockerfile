# Pin a digest with: --build-arg BASE=python:3.13-slim@sha256:...
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
COPY requirements/run.txt /build/requirements.txt
# Wheels only, each with the hash of the lock file: nothing is compiled or run while building.
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes --only-binary=:all: -r /build/requirements.txt \
    && /opt/venv/bin/pip uninstall --yes pip
COPY operator/schedclass /opt/schedclass/schedclass
# Compiled here, since the file system is read-only where it runs. By content hash, not by time.
RUN /opt/venv/bin/python -m compileall -q --invalidation-mode unchecked-hash \
    /opt/venv/lib /opt/schedclass

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="schedclass" \
      org.opencontainers.image.description="Placement policy for multi-tenant Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/opt/schedclass \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LOGNAME=schedclass \
    USER=schedclass \
    HOME=/tmp \
    SCHEDCLASS_REVISION=${REVISION}
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/schedclass /opt/schedclass
COPY LICENSE /licenses/LICENSE
WORKDIR /tmp
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["python", "-m", "schedclass"]
CMD ["--help"]
