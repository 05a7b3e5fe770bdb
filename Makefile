# Every command of the project; `make help` lists them.
PY := .venv/bin/python
GPU_PY ?= $(PY)

.PHONY: help chaos test-rabbitmq setup lock check test test-unit test-integration test-acceptance fuzz test-gpu test-engines demo bench-faces bench-media bench-farm bench-gpu bench-gpu-mesh bench-gpu-farm bench-live exactness clean

help: ## list the commands
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

setup: .venv/ready ## make .venv and install from the lock file

.venv/ready: requirements.lock pyproject.toml
	python3 -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock: ## resolve pyproject.toml into requirements.lock again (needs uv)
	uv pip compile pyproject.toml --extra s3 --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet -o requirements.lock

check: setup ## lint, format and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

test: setup ## every test tier, against real services that the tests start themselves
	.venv/bin/pytest --cov --cov-report=term:skip-covered

test-unit: setup ## tests without services
	.venv/bin/pytest tests/unit

test-integration: setup ## tests with real PostgreSQL, Valkey, S3 and ffmpeg
	.venv/bin/pytest tests/integration

test-gpu: ## tests that need an NVIDIA card, in a Python that has the gpu extra (GPU_PY=...)
	$(GPU_PY) -m pytest -m gpu tests/gpu

test-engines: setup ## every catalogue stand-in built into a TensorRT for RTX engine, no card needed (installs the extra)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[tensorrt-rtx]'
	.venv/bin/pytest tests/integration/inference/test_build.py

bench-gpu: ## the card's path against the network alone, x264 alone and the peers' way
	$(GPU_PY) -m bench.gpu

bench-gpu-farm: ## a whole farm on this machine's card, a slot killed in the middle of a job
	$(GPU_PY) -m bench.gpu_farm

bench-gpu-mesh: ## the bundled default on a card, against the processor's path
	$(GPU_PY) -m bench.gpu_mesh

test-acceptance: setup ## tests with real processes, real clips and a real browser
	.venv/bin/pytest tests/acceptance

fuzz: setup ## damaged files by the thousand
	.venv/bin/pytest -m slow tests/integration/media/test_fuzz.py

chaos: setup ## faults of every kind against a running farm; MINUTES=20 SEED=now STORE=folder BROKER=valkey
	$(PY) -m tests.chaos --minutes $(or $(MINUTES),20) --store $(or $(STORE),folder) --broker $(or $(BROKER),valkey) \
	  $(if $(SEED),--seed $(SEED))

test-rabbitmq: setup ## the acceptance tests with RabbitMQ as the broker (rabbitmq-server has to be installed)
	FARM_TESTS_BROKER=rabbitmq .venv/bin/pytest tests/acceptance

demo: setup ## render the sample plate through an embedded farm
	.venv/bin/farm demo

bench-faces: setup ## faces against the plate and the truth: identity, expression, flicker, speed
	$(PY) -m bench.faces

bench-media: setup ## planning, cutting, merging and passthrough against plain ffmpeg (some 10 minutes on a quiet machine)
	$(PY) -m bench.media

exactness: setup ## docs/exactness.md: every kind of input, frame for frame
	$(PY) -m bench.exactness

bench-live: setup ## how late a live stream comes out, against a plain ffmpeg
	$(PY) -m bench.live

bench-farm: setup ## claims, shares, repair and overhead of the control plane
	$(PY) -m bench.farm

clean: ## remove what can be made again
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
