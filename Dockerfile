# Images of the farm: `--target cpu` (API, reconciler, CPU workers) and `--target gpu` (workers with NVIDIA cards).
# Not built where it was written, which has no Docker engine: see docs/deployment.md.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock ./
# Every file is checked against the lock; only those that the farm needs at run time are installed from here.
RUN pip download --no-cache-dir --no-deps --require-hashes -r requirements.lock -d /wheels
COPY . .
RUN pip install --no-cache-dir --no-index --find-links /wheels hatchling editables \
    && pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation -w /wheels .
RUN python -m venv /opt/farm \
    && /opt/farm/bin/pip install --no-cache-dir --no-index --find-links /wheels "facefarm[s3]"

FROM python:3.11-slim-bookworm AS cpu
ENV PATH=/opt/farm/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    FARM_HOME=/var/lib/farm FARM_SCRATCH=/var/lib/farm/scratch FARM_LOG_FORMAT=json
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/farm farm \
    && install -d -o farm -g farm -m 0700 /var/lib/farm/scratch /var/lib/farm/data /var/lib/farm/secrets
COPY --from=build /opt/farm /opt/farm
USER farm
WORKDIR /var/lib/farm
# SIGTERM drains a worker; whoever stops it should wait for FARM_DRAIN_SECONDS.
STOPSIGNAL SIGTERM
CMD ["farm", "--help"]

FROM cpu AS gpu
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,video,utility
USER root
# The CPU build of ONNX Runtime has the same import name, so it goes first. CUDA's libraries come as wheels, in the ranges
# of pyproject.toml; the driver is the host's.
RUN /opt/farm/bin/pip uninstall --yes onnxruntime \
    && /opt/farm/bin/pip install --no-cache-dir \
       "onnxruntime-gpu[cuda,cudnn]>=1.31,<1.33" "cupy-cuda13x[ctk]>=14,<15" "nvidia-ml-py>=13,<14" "tensorrt-cu13>=10,<11"
USER farm
