# Everything real is cargo; this file only remembers the arguments. `make test` is what CI runs, whole.

.PHONY: help run check test soak bench bench-peers peers fmt tools deny

# Build products stay out of the working tree: they are large, and tools that walk the tree need not meet them.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/attache
export CARGO_TARGET_DIR ?= $(CACHE)/target
PEERS = $(CACHE)/peers-$(shell { cat benches/peers/package-lock.json; node --version; } 2>/dev/null | sha256sum | cut -c 1-16)

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

run: ## Build the server and start it. It prints where to open it.
	cargo run --locked --release -- serve

check: ## The fast loop: format, lints, unit tests and those of the structure.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	cargo nextest run --locked --workspace --all-features --lib --test tidy --test documents

# The test run comes last, so that its summary ends the output.
test: export ATTACHE_TEST_REQUIRE_ALL = 1
test: export ATTACHE_BENCH_PEERS = $(wildcard $(PEERS))
test: tools ## Everything that must hold before a change is merged.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	$(MAKE) --no-print-directory deny
	cargo test --locked --workspace --all-features --doc
	cargo nextest run --locked --workspace --all-features

# ATTACHE_SOAK_MINUTES is how long each fuzzed parser has: 10.
soak: export ATTACHE_TEST_REQUIRE_ALL = 1
soak: export ATTACHE_SOAK = 1
soak: tools ## The tests whose names contain soak, with rounds of minutes instead of seconds.
	cargo nextest run --locked --workspace --all-features --profile soak -E 'test(soak)'

bench: ## Measure the server and the floors in turn; writes benches/results.md. Takes a while and needs a quiet machine.
	cargo build --locked --profile dist --package attache
	cargo build --locked --profile dist --package attache-benches
	$(CARGO_TARGET_DIR)/dist/attache-bench $(BENCH)

bench-peers: peers ## Measure other servers in turn with this one; writes benches/results.md.
	cargo build --locked --profile dist --package attache
	cargo build --locked --profile dist --package attache-benches
	$(CARGO_TARGET_DIR)/dist/attache-bench --peers --peers-folder "$(PEERS)" $(BENCH)

# The packages of the peers, in a folder per lock file and version of Node, which appears only when it is whole. One of them is
# native: where no built one can be downloaded, it is compiled with the headers of the installed Node.
peers:
	@if [ ! -e "$(PEERS)" ]; then \
		command -v npm >/dev/null || { echo "Node.js 20 or newer and npm are needed for the peers: install them" >&2; exit 1; }; \
		if [ -e /usr/include/node/node_api.h ]; then export npm_config_nodedir=/usr; fi; \
		rm -rf "$(PEERS).new" && mkdir -p "$(PEERS).new" && \
		cp benches/peers/package.json benches/peers/package-lock.json benches/peers/.npmrc "$(PEERS).new" && \
		(cd "$(PEERS).new" && npm ci --ignore-scripts && npm rebuild better-sqlite3 && \
			node -e "new (require('better-sqlite3'))(':memory:')") && \
		mv "$(PEERS).new" "$(PEERS)"; \
	fi

fmt: ## Format the code.
	cargo fmt --all

# The advisory database is a git repository. Where it cannot be reached the rest is checked, and that is said.
deny:
	@if cargo deny --locked --workspace fetch db; then \
		cargo deny --locked --workspace check; \
	else \
		echo "ADVISORIES NOT CHECKED: the advisory database cannot be fetched from here" >&2; \
		cargo deny --locked --workspace check bans licenses sources; \
	fi

# What the tests need and cargo does not bring by itself.
tools:
	@command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	@if ! command -v jq >/dev/null || ! command -v curl >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends curl jq; \
		else \
			echo "curl and jq are needed for the walk of the README: install them" >&2; \
		fi; \
	fi
	@if ! command -v initdb >/dev/null && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends postgresql; \
		else \
			echo "PostgreSQL 15 or newer is needed for the tests: install it, or put its programs in PATH" >&2; \
		fi; \
	fi
	@if ! command -v chromedriver >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium chromium-driver; \
		else \
			echo "Chromium and its chromedriver are needed for the tests of the pages: install them" >&2; \
		fi; \
	fi
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends nodejs npm; \
		else \
			echo "Node.js 18 or newer and npm are needed for the tests of pages and sign-in: install them" >&2; \
		fi; \
	fi
	@# A folder per lock file, which appears only when it is whole; `harness::npm` looks in the same place.
	@folder="$${ATTACHE_TEST_NPM:-$(CACHE)/npm-$$(sha256sum tests/npm/package-lock.json | cut -c 1-16)}"; \
	if [ ! -e "$$folder" ] && command -v npm >/dev/null; then \
		rm -rf "$$folder.new" && mkdir -p "$$folder.new" && cp tests/npm/package.json tests/npm/package-lock.json tests/npm/.npmrc "$$folder.new" && \
		(cd "$$folder.new" && npm ci --ignore-scripts) && mv "$$folder.new" "$$folder"; \
	fi
	@if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3 python3-venv; \
		else \
			echo "Python 3.9 or newer with venv is needed for the tests of mail, guides and descriptions: install it" >&2; \
		fi; \
	fi
	@# The same for each list of Python packages; `harness::python` looks there.
	@for list in tests/python/*.txt; do \
		folder="$(CACHE)/python-$$(basename "$$list" .txt)-$$(sha256sum "$$list" | cut -c 1-16)"; \
		if [ ! -e "$$folder" ] && command -v python3 >/dev/null; then \
			rm -rf "$$folder.new" && python3 -m venv "$$folder.new" && \
			{ "$$folder.new/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$$list" || \
				{ [ "$$list" = tests/python/pgvector.txt ] && touch "$$folder.new/unavailable" && \
					echo "NOT TESTED: there is no pgvector for this Python or processor" >&2; }; } && \
			mv "$$folder.new" "$$folder" || exit 1; \
		fi; \
	done
