# One entry for everything. `make` builds; `make run`, `make test`, `make bench` do what they say.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
TARGET  := $(abspath $(or $(CARGO_TARGET_DIR),target))
HANARE  := $(TARGET)/release/hanare
LIBRARY := $(TARGET)/release/libhanare_capi
MUSL    := $(shell uname -m)-unknown-linux-musl
MUSL_CC ?= $(or $(shell command -v musl-gcc),cc)

.PHONY: build apps run test wheel nightly bench check deny install dist clean help

## build    the command, the libraries and the programs in C
build:
	@scripts/prepare.sh build
	$(CARGO) build --release -p hanare-cli -p hanare-capi -p hanare-nbdkit -p hanare-preload

apps: build
	@$(MAKE) --no-print-directory -C apps OUT=$(CURDIR)/out/apps LIBRARY=$(LIBRARY).so

## run      what the pool is for, in a minute; an unchanged program on three times its memory; two matrices from files, multiplied on two nodes
run: build
	$(HANARE) demo
	$(HANARE) demo memory
	$(HANARE) demo matmul

## test     every test
test:
	@scripts/prepare.sh test
	@$(CARGO) build -q -p hanare-preload
	@status=0; $(CARGO) test --workspace --exclude hanare-python --no-fail-fast || status=$$?; \
	scripts/python.sh test || status=$$?; exit $$status

## wheel    the Python package into dist/, with the command in it
wheel:
	scripts/python.sh wheel

## nightly  what takes hours: fuzz targets (60 s each), commands under faults (MINUTES=5), long explorations, every step of a fault, the simulator, predictions
nightly: build
	FUZZ_SECONDS=60 $(CARGO) test -p hanare-protocol -p hanare-memory -p hanare-ring -p hanare-fabric -p hanare -p hanare-disk -p hanare-model --lib fuzz:: -- --nocapture --test-threads 1
	FUZZ_SECONDS=60 $(CARGO) test -p hanare-cli --bin hanare fuzz:: -- --nocapture --test-threads 1
	CHECKER_MINUTES=$(or $(MINUTES),5) $(CARGO) test -p hanare --test late_commands checker -- --ignored --nocapture
	$(CARGO) test --release -p hanare-protocol --lib page::explore::long -- --ignored --nocapture
	$(CARGO) test --release -p hanare-sim --lib page::tests::many -- --ignored
	$(CARGO) test -p hanare-cli --test fault_matrix every_cell -- --ignored
	$(CARGO) test -p hanare --test all every_instruction -- --ignored --test-threads 1
	$(CARGO) test -p hanare --test all every_step -- --ignored
	$(CARGO) run --release -p hanare-cli -- sim --minutes 60
	scripts/what-if.sh $(HANARE)

## bench    the benches beside their peers
bench: build apps
	@scripts/prepare.sh bench
	$(HANARE) bench all

## check    formatting, lints and documentation
check:
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
install: build
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh $(HANARE) $(LIBRARY)

## dist     into dist/: a static command (musl) alone and as .tar.gz, and a .deb with the libraries
dist: build
	@scripts/prepare.sh dist
	CC_$(subst -,_,$(MUSL))=$(MUSL_CC) $(CARGO) build --release -p hanare-cli --target $(MUSL)
	scripts/dist.sh $(TARGET)/$(MUSL)/release/hanare $(HANARE) $(LIBRARY)

clean:
	$(CARGO) clean
	rm -rf out dist

help:
	@sed -n 's/^## /make /p' Makefile
