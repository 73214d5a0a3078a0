# One entry for everything. `make` builds; `make run`, `make test`, `make bench` do what they say.

PREFIX  ?= /usr/local
DESTDIR ?=
CARGO   ?= cargo
TARGET  := $(abspath $(or $(CARGO_TARGET_DIR),target))
HANARE  := $(TARGET)/release/hanare
LIBRARY := $(TARGET)/release/libhanare_capi
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SONAME  := libhanare.so.$(firstword $(subst ., ,$(VERSION)))

.PHONY: build apps run test bench check install clean help

## build    the command, the libraries and the programs in C
build:
	@scripts/prepare.sh build
	$(CARGO) build --release -p hanare-cli -p hanare-capi

apps: build
	@$(MAKE) --no-print-directory -C apps OUT=$(CURDIR)/out/apps LIBRARY=$(LIBRARY).so

## run      the main job: two matrices from files, multiplied by two ranks on two nodes, saved and checked
run: build apps
	$(HANARE) demo matmul

## test     every test
test:
	@scripts/prepare.sh test
	$(CARGO) test --workspace --no-fail-fast

## bench    the benches beside their peers
bench: build apps
	@scripts/prepare.sh bench
	$(HANARE) bench all

## check    formatting, lints and documentation
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

## install  into PREFIX (default /usr/local): command, headers, libraries, pkg-config, completions, man pages
install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(HANARE) $(DESTDIR)$(PREFIX)/bin/hanare
	install -m 644 crates/capi/include/*.h $(DESTDIR)$(PREFIX)/include/
	install -m 755 $(LIBRARY).so $(DESTDIR)$(PREFIX)/lib/libhanare.so.$(VERSION)
	ln -sf libhanare.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libhanare.so
	install -m 644 $(LIBRARY).a $(DESTDIR)$(PREFIX)/lib/libhanare.a
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' crates/capi/hanare.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/hanare.pc
	$(HANARE) man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(HANARE) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hanare
	$(HANARE) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_hanare
	$(HANARE) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/hanare.fish

clean:
	$(CARGO) clean
	rm -rf out

help:
	@sed -n 's/^## /make /p' Makefile
