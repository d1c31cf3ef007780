# The commands of this project. Everything they need is installed into .venv, from the versions in constraints.txt.
PYTHON ?= $(shell .ci/python)
VENV   ?= .venv
BIN     = $(VENV)/bin
PROCESSES = 4
# Most tests wait for a server, so there are more processes than cores, three where they wait less; tests/parallel.py says what they share. What is compiled is
# kept, also where the environment forbids it: compiling again takes most of each start. What hypothesis has read of the sources, seconds in each process, is kept for all checkouts.
PYTEST  = PYTHONDONTWRITEBYTECODE= HYPOTHESIS_STORAGE_DIRECTORY="$${HYPOTHESIS_STORAGE_DIRECTORY:-$${XDG_CACHE_HOME:-$$HOME/.cache}/naiad/hypothesis}" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help run smoke test test-fast test-conformance test-operator test-tools test-engines interop test-stores test-stores-full test-frameworks gpu-check test-full lint format generate bench bench-against bench-operator bench-repository bench-cluster large-requests soak fuzz images cluster-demo cluster-down e2e e2e-full clean

help: ## show these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.server ## serve the example models, send a real request, keep serving
	@$(BIN)/python examples/first_request.py

smoke: $(VENV)/.server ## the same, but answer once and exit
	@$(BIN)/python examples/first_request.py --once

# What needs another program (tritonserver, an API server, an S3 server) has commands of its own; CI (.ci/run) runs them, but not interop and test-stores-full.
TOOLS = $(addprefix tests/,benchmarks e2e gpu reference soak test_images.py toolchain types)
OWN_COMMANDS = $(addprefix --ignore=tests/,conformance engines operator/live stores) $(addprefix --ignore=,$(TOOLS))

# With four, two cores have nothing to do for a third of the time of these.
test test-fast: PROCESSES = 6
test: $(VENV)/.dev ## the server, the operator, the chart and the examples, without another program beside them
	@$(PYTEST) $(OWN_COMMANDS) --durations=25

test-fast: $(VENV)/.dev ## the unit tests and the tests of the real server, without the slow ones
	@$(PYTEST) -m "not slow" $(OWN_COMMANDS) $(addprefix --ignore=tests/,fuzz large_requests)

test-conformance: $(VENV)/.dev ## the same requests to a real tritonserver and to ours, answers compared field by field (tritonserver is installed once into the cache)
	@$(PYTEST) tests/conformance --durations=10

test-operator: $(VENV)/.dev ## the operator against a real API server, etcd and controller-manager (built once into the cache)
	@$(PYTEST) tests/operator/live --durations=10

test-engines: $(VENV)/.dev ## the tests of the wire and the scenarios beside Triton over the second engines, grpcio and uvicorn, and h2spec
	@NAIAD_TEST_GRPC_ENGINE=grpcio NAIAD_TEST_HTTP_ENGINE=uvicorn $(PYTEST) tests/engines/test_h2spec.py tests/wire/protocol \
	  $(addprefix tests/wire/process/test_,access_log.py addresses.py process.py) tests/conformance/test_grpc*.py tests/conformance/test_http*.py tests/conformance/test_generate.py --durations=10

interop: $(VENV)/.dev ## gRPC's interop cases, grpcurl, ghz, perf_analyzer, grpc-java and, from TRITON_CLIENT=DIR, the examples of Triton's client against the native engine; with KSERVE_PYTHON=PYTHON, KServe's server and transformer
	@$(PYTEST) -n 2 tests/engines/interop tests/seams/test_question_answering.py --durations=10

test-tools: $(VENV)/.dev ## what measures, deploys and tests: the benchmarks, soak, cluster, images and GPU check, each in small; the types that a user's program sees
	@$(PYTEST) $(TOOLS) --durations=10

test-stores: $(VENV)/.dev ## object stores on loopback: an S3 server (built once into the cache), emulators of the others
	@$(PYTEST) -m "not stores" tests/stores --durations=10

test-stores-full: $(VENV)/.dev ## the same, also Azure's (needs npm) and the long ones
	@$(PYTEST) tests/stores --durations=10

FRAMEWORKS = broken caffe2 dali fil mixed openvino pytorch tensorflow vllm

test-frameworks: $(VENV)/.dev ## the tests of the frameworks of models, which are installed once into the cache: 8 GB
	@PYTHON="$(PYTHON)" VENV="$(VENV)" .ci/frameworks
	@set -e; $(foreach each,$(FRAMEWORKS),PYTHONDONTWRITEBYTECODE= $(VENV)-frameworks/bin/python -m pytest -n 2 tests/frameworks/$(each) --durations=5;)

gpu-check: ## check what needs a GPU, on a machine with one and without a network, in the interpreter PYTHON (ARGS="--only plans,torch --seconds 300")
	@PYTHONPATH=server:. $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m tests.gpu $(ARGS)

test-full: $(VENV)/.dev ## every test but those of interop, with many more random examples
	@HYPOTHESIS_PROFILE=full $(PYTEST) --ignore=tests/engines/interop --durations=25

lint: $(VENV)/.dev ## check style, types, layers and the project's English
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=server:operator $(BIN)/lint-imports --no-cache
	$(BIN)/python .ci/prose

format: $(VENV)/.dev ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: $(VENV)/.dev ## write the CRD, its page and the manifests again that are made from the operator's types
	$(BIN)/python .ci/generate

bench: $(VENV)/.dev ## measure beside Triton (ARGS=--write puts it into docs/performance.md); MODEL=DIR measures a model of yours
	$(BIN)/python -m benchmarks.server.run $(MODEL) $(ARGS)

bench-against: $(VENV)/.dev ## processor time per request beside another checkout of Naiad (CHECKOUT=DIR; ARGS="--only 'gRPC stream' --plot FILE")
	@PYTHONPATH=server:operator:. $(BIN)/python -m benchmarks.against.run $(CHECKOUT) $(ARGS)

bench-operator: $(VENV)/.dev ## measure the operator at 10, 100 and 1,000 services on a real API server (ARGS=--write puts it into docs/operator-inside.md)
	PYTHONPATH=server:operator:. $(BIN)/python -m benchmarks.operator.run $(ARGS)
	PYTHONPATH=server:operator:. $(BIN)/python -m benchmarks.operator.isolation

bench-repository: $(VENV)/.dev ## measure loads from S3, starts, polls and reloads (ARGS="--only polling s3-load", ARGS=--write puts it into docs/performance.md)
	@PYTHONPATH=server:operator:. $(BIN)/python -m benchmarks.repository.run $(ARGS)

bench-cluster: $(VENV)/.dev ## measure a cluster's start, the demo's first answer, and failed requests while pods are replaced (ARGS=--write puts it into docs/cluster.md)
	@PYTHONPATH=. $(BIN)/python -m benchmarks.cluster.run $(ARGS)

large-requests: $(VENV)/.dev ## every kind of 64 MB request and reply, and how late each makes the event loop (ARGS="MEGABYTES [PART OF A NAME ...]")
	$(BIN)/python -m tests.large_requests $(ARGS)

soak: $(VENV)/.dev ## 200,000 requests to models scheduled in every way, under kills, cancels and reloads, then 10,000 model names
	$(BIN)/python -m tests.soak

fuzz: $(VENV)/.fuzz ## send random input to the decoders, the config parser, the worker's link and HTTP framing (FUZZ_SECONDS=300, ARGS="config --keep")
	PYTHONPATH=server:operator:. $(BIN)/python -m tests.fuzz $(ARGS)

images: $(VENV)/.dev ## build both container images by buildah into build/images, with an SBOM each, and print their sizes
	@PYTHONPATH=. $(BIN)/python -m e2e.imagebuild

cluster-demo: $(VENV)/.dev ## a two-node Kubernetes on this machine, the images, the chart, a model from S3, the first answer through an ingress
	@PYTHONPATH=. $(BIN)/python -m e2e.demo

cluster-down: $(VENV)/.dev ## end that cluster and remove everything of it
	@PYTHONPATH=. $(BIN)/python -m e2e.cluster down

e2e: $(VENV)/.dev ## CI's part of the stories on such a cluster, or on the one of KUBECONFIG
	@PYTHONPATH=. $(BIN)/python -m e2e.run -m "not full"

e2e-full: $(VENV)/.dev ## every story, with the long ones and the faults
	@PYTHONPATH=. $(BIN)/python -m e2e.run

clean: ## remove what these commands made
	rm -rf $(VENV) $(VENV)-frameworks .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(VENV)/.server: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" VENV="$(VENV)" .ci/environment server

$(VENV)/.dev: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" VENV="$(VENV)" .ci/environment dev

$(VENV)/.fuzz: $(VENV)/.dev
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	@touch $(VENV)/.fuzz
