# The front door. Meson builds (build/); this only says the common things shortly.
#   DESTDIR, PREFIX    for install           FUZZ_SECONDS, FUZZ_TARGETS    for fuzz
#   BENCH_ARGS         for bench(-postgres)  SEEDS, FIRST                  for sim
#   DEMO_ARGS          for scale-demo
#   PACKAGES=no        never install packages

FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=
BENCH_ARGS ?=
DEMO_ARGS ?=
SEEDS ?= 20000
FIRST ?= 1
PACKAGES ?= yes
PREFIX ?= /usr/local

ifeq ($(PACKAGES),no)
install_packages = @:
else
install_packages = @scripts/install-packages
endif

.PHONY: help build run check test sim model bench bench-http bench-peers bench-postgres bench-report fuzz lint \
	format install node node-packages bench-languages clean go java sqlite posts scale-demo \
	bench-leases-postgres
.DEFAULT_GOAL := help

help: ## This list
	@echo "kazahana: unique 64-bit IDs that sort by time"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-17s %s\n", $$1, $$2 }'

build: ## The program build/kazahana and the libraries beside it; installs missing packages
	$(install_packages) build
	@scripts/configure build
	@ninja -C build program

run: ## Build, start the server, mint an ID through it and take it apart; Ctrl-C ends it
	$(install_packages) build
	@scripts/configure build >/dev/null
	@ninja -C build --quiet program
	@scripts/demo build/kazahana

check: ## Worth running while you work, under two minutes: lint, build, and the suites that start nothing slow
	$(install_packages) build test
	@scripts/lint
	@scripts/configure build -Dwerror=true >/dev/null
	@ninja -C build --quiet
	@meson test -C build --no-rebuild --print-errorlogs --num-processes 4 \
		--suite unit --suite threads --suite leases --suite server --suite cli --suite fuzz

test: ## Everything: lint, all suites, again under ASan and UBSan, threads and leases under TSan
	$(install_packages) build test
	@scripts/run-tests

go: ## The Go module bindings/go: the C core beside it, built
	$(install_packages) build go
	@bindings/go/run-tests --build

java: ## The Java artifacts, into the local Maven repository
	$(install_packages) build java
	@bindings/java/run-tests --build

node: ## The npm package bindings/node, ready for `npm install PATH`
	$(install_packages) build node
	@bindings/node/run-tests --build

node-packages: node ## What is published on npm, in build/node/packages: x64 and arm64, glibc and musl, by zig cc
	@bindings/node/make-packages

sqlite: ## The SQLite extension, build/kazahana.so
	$(install_packages) build
	@scripts/configure build >/dev/null
	@ninja -C build --quiet bindings/sqlite/kazahana.so
	@cp build/bindings/sqlite/kazahana.so build/kazahana.so

posts: ## The example backend, build/examples/posts/posts
	$(install_packages) build posts
	@scripts/configure build -Dposts=enabled
	@ninja -C build examples/posts/posts

scale-demo: ## Five backends behind nginx, 100,000 posts, two of them killed and two started meanwhile
	$(install_packages) build test
	@scripts/configure build -Dposts=enabled >/dev/null
	@ninja -C build --quiet examples/posts/posts
	@scripts/scale-demo $(DEMO_ARGS)

sim: ## The simulator over SEEDS seeds (20000) from FIRST (1) on
	$(install_packages) build
	@scripts/configure build >/dev/null
	@ninja -C build --quiet tests/sim/sim
	build/tests/sim/sim --seeds $(SEEDS) --first $(FIRST)

model: ## The larger models, exhaustively: minutes, and a few GB
	$(install_packages) build test
	model/run --large

bench: ## The speed goals with the measured ratios beside them
	$(install_packages) build test
	@scripts/configure build
	@ninja -C build
	@build/bench/bench $(BENCH_ARGS)
	@build/bench/leases

bench-peers: ## The same work done by others, in one table
	$(install_packages) build
	@scripts/configure build
	@ninja -C build
	@bench/peers/run --json build/peers.json

bench-languages: ## The bindings beside what their languages have, CPU time for an ID
	$(install_packages) build
	@scripts/configure build
	@ninja -C build
	@bench/languages/run $(BENCH_ARGS)

bench-report: ## docs/bench.svg and docs/bench.md from a real run
	$(install_packages) build
	@scripts/configure build
	@ninja -C build
	@bench/report

bench-postgres: ## Inserts, index sizes and joins in PostgreSQL: kazahana's keys, UUIDs, bigserial
	$(install_packages) build test
	@scripts/configure build
	@ninja -C build --quiet bench/postgres_load
	@bench/postgres/run $(BENCH_ARGS)

bench-leases-postgres: build ## Leases in PostgreSQL: few and many held, one connection and 32 clients of a server
	@bench/postgres/leases

bench-http: ## GET /id beside a bare epoll loop and nginx
	$(install_packages) build test
	@scripts/configure build
	@ninja -C build
	@bench/http/run build

fuzz: ## Each fuzz target for FUZZ_SECONDS (60), starting from its corpus
	$(install_packages) build test fuzz
	@CC=clang scripts/configure build-fuzz -Dfuzz=true
	@ninja -C build-fuzz
	@FUZZ_SECONDS='$(FUZZ_SECONDS)' scripts/fuzz $(FUZZ_TARGETS)

lint: ## The checks that need no build (a part of test)
	$(install_packages) test
	@scripts/lint

format: ## clang-format over every C file
	$(install_packages) test
	@git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cc' | xargs clang-format -i

install: ## Install under PREFIX (/usr/local), within DESTDIR if given
	$(install_packages) build
	@scripts/configure build
	@meson configure build -Dprefix='$(PREFIX)'
	@ninja -C build
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi

clean: ## Remove every build directory
	rm -rf build build-asan build-tsan build-fuzz
