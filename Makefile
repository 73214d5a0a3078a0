# One entry for everything. `make` builds; `make run`, `make test`, `make bench` do what they say.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
TARGET  := $(abspath $(or $(CARGO_TARGET_DIR),target))
HANARE  := $(TARGET)/release/hanare
LIBRARY := $(TARGET)/release/libhanare_capi
MUSL    := $(shell uname -m)-unknown-linux-musl
OLDEST  := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# Tests whose number of steps is fixed take hours under Miri.
MIRI_SKIPS ?= --skip explore --skip anything
MUSL_CC ?= $(or $(shell command -v musl-gcc),cc)

.PHONY: build models apps shmem fortran run test quick wheel nightly sanitize oldest bench check deny install dist release-check clean help

## build    the command, the libraries and the programs in C
build:
	@scripts/prepare.sh build
	$(CARGO) build --release -p hanare-cli -p hanare-capi -p hanare-nbdkit -p hanare-preload

## models   the program of `hanare model`, `hanare report` and `hanare what-if`, beside the command
models:
	@scripts/prepare.sh build
	$(CARGO) build --release -p hanare-models

apps: build
	@$(MAKE) --no-print-directory -C apps OUT=$(CURDIR)/out/apps LIBRARY=$(LIBRARY).so

## shmem    OpenSHMEM over the library: out/shmem/bin has oshcc and oshrun
shmem: build
	@$(MAKE) --no-print-directory -C shmem OUT=$(CURDIR)/out/shmem LIBRARY=$(LIBRARY).so COMMAND=$(HANARE)

## fortran  the Fortran module over the library: out/fortran has include/, lib/ and the example
fortran: build
	@$(MAKE) --no-print-directory -C fortran OUT=$(CURDIR)/out/fortran LIBRARY=$(LIBRARY).so

## run      what the pool is for, in a minute; an unchanged program on three times its memory; two matrices from files, multiplied on two nodes
run: build
	$(HANARE) demo
	$(HANARE) demo memory
	$(HANARE) demo matmul

## test     every test: programs side by side, what was skipped counted at the end (target/tests has their output)
test:
	@scripts/prepare.sh test
	@scripts/tests.sh full

## quick    the rules, the tables, the libraries' own tests, the house, and one program of each face
quick:
	@scripts/prepare.sh build
	@scripts/tests.sh quick

## wheel    the Python package into dist/, with the command in it
wheel:
	scripts/python.sh wheel

## nightly  what takes hours: sanitizers, the oldest Rust, fuzz targets (60 s each), commands and copies under faults (MINUTES=5 each), the release before beside today's, long explorations, every step of a fault, the simulator, predictions
nightly: build models check deny sanitize oldest
	FUZZ_SECONDS=60 $(CARGO) test -p hanare-protocol -p hanare-memory -p hanare-ring -p hanare-fabric -p hanare -p hanare-dict -p hanare-disk -p hanare-model --lib fuzz:: -- --nocapture --test-threads 1
	FUZZ_SECONDS=60 $(CARGO) test -p hanare-cli --bin hanare fuzz:: -- --nocapture --test-threads 1
	CHECKER_MINUTES=$(or $(MINUTES),5) $(CARGO) test -p hanare --test late_commands checker -- --ignored --nocapture
	JUDGE_MINUTES=$(or $(MINUTES),5) $(CARGO) test -p hanare --test judged_copies for_long -- --ignored --nocapture
	HANARE_TEST_LAST=$$(scripts/last-release.sh) && export HANARE_TEST_LAST && $(CARGO) test -p hanare-cli --test all side_by_side
	$(CARGO) test --release -p hanare-protocol --lib page::explore::long -- --ignored --nocapture
	$(CARGO) test --release -p hanare-sim --lib page::tests::many -- --ignored
	$(CARGO) test -p hanare-cli --test fault_matrix every_cell -- --ignored
	$(CARGO) test -p hanare --test all every_instruction -- --ignored --test-threads 1
	$(CARGO) test -p hanare --test all every_step -- --ignored
	$(CARGO) run --release -p hanare-cli -- sim --minutes 60
	scripts/what-if.sh $(HANARE)

## sanitize Miri over the rules, homes and rings; AddressSanitizer over memory and the C face. By rustup's nightly toolchain
sanitize:
	@scripts/prepare.sh nightly
	PROPTEST_CASES=2 MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --target-dir target/miri -p hanare-protocol -p hanare-home -p hanare-ring --lib -- $(MIRI_SKIPS)
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test --target-dir target/address --target $(shell uname -m)-unknown-linux-gnu -p hanare-memory --lib
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test --target-dir target/address --target $(shell uname -m)-unknown-linux-gnu -p hanare-capi --lib

## oldest   builds everything with the oldest Rust that Cargo.toml names, by rustup
oldest:
	@scripts/prepare.sh nightly
	$(CARGO) +$(OLDEST).0 check --target-dir target/oldest --workspace --all-targets --exclude hanare-python

## bench    the benches beside their peers
bench: build apps
	@scripts/prepare.sh bench
	$(HANARE) bench all

## check    formatting, lints and documentation
check:
	@scripts/prepare.sh check
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p hanare --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --exclude hanare-python --no-deps --document-private-items

## deny     licences, sources and advisories of dependencies, by cargo-deny; without a network the advisories are left out
deny:
	@if ! $(CARGO) deny --version >/dev/null 2>&1; then echo "skipped: cargo-deny is not installed (cargo install cargo-deny)"; \
	else $(CARGO) deny check licenses bans sources && \
	if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny check advisories; \
	else echo "skipped: the advisories cannot be reached"; fi; fi

## install  into PREFIX (default /usr/local): command, headers, libraries, pkg-config, completions, man pages
install: build models
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh $(HANARE) $(LIBRARY)

## dist     into dist/: a static command (musl) alone and as .tar.gz, and a .deb with the libraries
dist: build models
	@scripts/prepare.sh dist
	CC_$(subst -,_,$(MUSL))=$(MUSL_CC) $(CARGO) build --release -p hanare-cli -p hanare-models --target $(MUSL)
	scripts/dist.sh $(TARGET)/$(MUSL)/release/hanare $(HANARE) $(LIBRARY)

## release-check  what has to hold before a release: PARTS="versions dist" checks some of it
release-check:
	@scripts/release.sh $(PARTS)

clean:
	$(CARGO) clean
	rm -rf out dist

help:
	@sed -n 's/^## /make /p' Makefile
