# To build the same image again, give the digest too: --build-arg PYTHON=python:3.12-slim@sha256:...
ARG PYTHON=python:3.12-slim

FROM ${PYTHON} AS build

WORKDIR /src
# Every package is held to a hash; only the scaler's own wheel, built here, has none.
RUN python -m venv /opt/scaler
COPY requirements.lock requirements-build.lock ./
RUN /opt/scaler/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
    && python -m pip install --no-cache-dir --require-hashes -r requirements-build.lock

# Of the kubernetes client only the way to the API server is used.
COPY manifests/image/trim_kubernetes.py ./
RUN python trim_kubernetes.py /opt/scaler/lib/python3.*/site-packages

COPY pyproject.toml README.md LICENSE ./
COPY scaler scaler
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/scaler/bin/pip install --no-cache-dir --no-deps /dist/*.whl \
    && /opt/scaler/bin/pip uninstall --yes pip


FROM ${PYTHON}

LABEL org.opencontainers.image.title="vllm-keda-scaler" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=build /opt/scaler /opt/scaler

# Bytecode was compiled in the build stage; nothing is written at run time, so the root filesystem
# may be read-only.
ENV PATH=/opt/scaler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that Kubernetes can verify runAsNonRoot. Any other will do: nothing belongs to it.
USER 65532:65532
EXPOSE 50051 8080

HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["scaler", "health", "--grpc", "127.0.0.1:50051"]

ENTRYPOINT ["scaler"]
CMD ["serve", "--grpc-listen", "0.0.0.0:50051", "--http-listen", "0.0.0.0:8080"]
