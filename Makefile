# make dist    the program for installing, target/dist/weir, with its symbols beside it in weir.debug
# make deb     Debian packages of it in target/debian: the program with manual pages, units and images, its symbols, and the library for network functions
# make test    what CI runs: system packages if missing, format, lints, all tests (root: tests make network namespaces)
# make web     builds the dashboard anew, web/dist, which is part of the sources: cargo build needs no npm
# make demo    a service graph between two network namespaces, in a minute
# make demo-domain   a NAT that moves between three nodes under iperf3
# make bench   measures the data plane, beside other programs if root can install them; writes bench/RESULTS.md
# make fuzz    runs each fuzz target for MINUTES (1) with libFuzzer; needs a nightly Rust and cargo-fuzz
# make sdk     lints and tests of the Python SDK, against a real controller and three nodes (root)
# make mutate  makes mistakes in a copy of the sources, and finds that the tests notice each; one in ONE_IN (1), CI one in 4

MINUTES ?= 1
ONE_IN ?= 1

.PHONY: build dist deb web demo demo-domain test setup fmt lint dashboard unit sdk deny bench fuzz mutate

build:
	cargo build --locked --release -p weir

# Debuggers and perf find the symbols by the link; see objcopy(1), --add-gnu-debuglink.
dist: build
	mkdir -p target/dist
	objcopy --only-keep-debug target/release/weir target/dist/weir.debug
	objcopy --strip-all target/release/weir target/dist/weir
	cd target/dist && objcopy --add-gnu-debuglink=weir.debug weir

deb: build
	cargo build --locked --release -p weir-vnf-c
	scripts/deb target/release/weir

setup:
	scripts/setup.sh

fmt:
	cargo fmt --all -- --check

lint:
	cargo clippy --locked --workspace --all-targets -- -D warnings

unit:
	cargo test --locked --workspace

sdk:
	cargo build --locked --workspace
	cd sdk/python && ../../target/sdk/bin/ruff check -q . && ../../target/sdk/bin/ruff format -q --check .
	cd sdk/python && ../../target/sdk/bin/mypy
	cd sdk/python && ../../target/sdk/bin/python -B -m pytest

web:
	scripts/setup.sh
	cd web && npm run build

# Types and parts of the dashboard, and that web/dist is what its sources give.
dashboard:
	cd web && npm run check && npm test && npx vite build --outDir ../target/web --emptyOutDir
	diff -r web/dist target/web || { echo "web/dist is not what web/src gives: make web" >&2; exit 1; }

deny:
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check; else echo "cargo-deny is not installed: skipped"; fi

# One after the other, also under make -j: cargo has one build directory.
test:
	$(MAKE) setup
	$(MAKE) fmt
	$(MAKE) lint
	$(MAKE) dashboard
	$(MAKE) unit
	$(MAKE) sdk
	$(MAKE) deny

demo:
	scripts/setup.sh
	cargo build --locked -p weir
	scripts/demo

demo-domain:
	scripts/setup.sh
	cargo build --locked -p weir
	scripts/demo-domain

bench:
	scripts/bench-setup.sh
	cargo build --locked --release -p weir -p weir-bench -p weir-vnf-c
	target/release/weir-bench

fuzz:
	cargo run --locked -p weir-fuzz -- seeds fuzz/corpus
	for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do \
		(cd fuzz && cargo +nightly fuzz run $$target -- -max_total_time=$$((60 * $(MINUTES)))) || exit 1; \
	done

mutate:
	cargo run --locked -p xtask -- mutate --one-in $(ONE_IN)
