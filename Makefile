# Arguments of cargo commands. CI runs `make test`.

.PHONY: help run check test dist release soak bench bench-peers peers agents fmt schema pictures tools deny

# Packages of other languages that tests and benches use. Build products are in cargo's own folder, where every command of the README finds them.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/attache
TARGET := $(or $(CARGO_TARGET_DIR),target)
PEERS = $(CACHE)/peers-$(shell { cat benches/peers/package-lock.json; node --version; } 2>/dev/null | sha256sum | cut -c 1-16)
AGENTS = $(CACHE)/agents-$(shell sha256sum tests/agents/package-lock.json | cut -c 1-16)

# $(call npm_folder,FOLDER,SOURCE,MORE): installs the lock file in SOURCE and runs MORE. The folder exists only when complete.
npm_folder = rm -rf "$(1).new" && mkdir -p "$(1).new" && cp $(2)/package.json $(2)/package-lock.json $(2)/.npmrc "$(1).new" && \
	(cd "$(1).new" && npm ci --ignore-scripts $(3)) && mv "$(1).new" "$(1)"

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

run: ## Build the server and start it. It prints where to open it.
	cargo run --locked --release -- serve

check: ## Check the format, lint, and run the unit tests and the tests of the structure.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	cargo nextest run --locked --workspace --all-features --lib --test tidy --test documents

# The test run comes last, so that its summary ends the output.
test: export ATTACHE_TEST_REQUIRE_ALL = 1
test: export ATTACHE_BENCH_PEERS = $(wildcard $(PEERS))
# Half of a test is waiting for timers, disks and other processes.
test: export NEXTEST_TEST_THREADS ?= $(shell expr \( $$(nproc) \* 3 + 1 \) / 2)
test: tools ## Run all checks that a change must pass before it is merged.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
	$(MAKE) --no-print-directory deny
	cargo test --locked --workspace --all-features --doc
	@[ -e "$(AGENTS)" ] || echo "NOT TESTED: the coding agents themselves, which make agents installs" >&2
	@[ -n "$$ATTACHE_BENCH_PEERS" ] || echo "NOT TESTED: the benches of other servers, which make peers installs" >&2
	@[ -e "$${ATTACHE_TEST_DATA:-../shared/data}/cranfield" ] || echo "NOT TESTED: the ranking of a public collection: ATTACHE_TEST_DATA names no folder with cranfield" >&2
	@[ -n "$$ATTACHE_OLD_BINARY" ] || echo "NOT TESTED: nodes of two versions side by side: ATTACHE_OLD_BINARY names no older program" >&2
	cargo run --quiet --locked --package attache-test-tools --bin test-times -- cargo nextest run --locked --workspace --all-features

# ATTACHE_SIGNING_KEY: secret key of minisign, which signs the sums.
dist: ## Build the packages of this version into dist/: archive, .deb, wheel, npm packages and container image.
	packaging/build.sh dist

release: ## Check that this commit can be released, run the tests, and tag it.
	packaging/release.sh

# ATTACHE_SOAK_MINUTES: duration of each fuzz test, default 10. What soaks write is not kept in memory.
soak: export TMPDIR := $(or $(TMPDIR),/tmp)
soak: export ATTACHE_TEST_REQUIRE_ALL = 1
soak: export ATTACHE_SOAK = 1
soak: tools ## Run the tests whose names contain soak, for minutes instead of seconds.
	cargo nextest run --locked --workspace --all-features --profile soak -E 'test(soak)'

bench: ## Measure the server and the floors in turn and write benches/results.md. Needs an idle machine.
	cargo build --locked --profile dist --package attache
	cargo build --locked --profile dist --package attache-benches
	$(TARGET)/dist/attache-bench $(BENCH)

bench-peers: peers ## Measure other servers in turn with this one and write benches/results.md.
	cargo build --locked --profile dist --package attache
	cargo build --locked --profile dist --package attache-benches
	$(TARGET)/dist/attache-bench --peers --peers-folder "$(PEERS)" $(BENCH)

# Packages of the peers, in a folder per lock file and version of Node. One of them is native: without a
# prebuilt download, it is compiled with the headers of the installed Node.
peers:
	@if [ ! -e "$(PEERS)" ]; then \
		command -v npm >/dev/null || { echo "Node.js 20 or newer and npm are needed for the peers: install them" >&2; exit 1; }; \
		if [ -e /usr/include/node/node_api.h ]; then export npm_config_nodedir=/usr; fi; \
		$(call npm_folder,$(PEERS),benches/peers,&& npm rebuild better-sqlite3 && node -e "new (require('better-sqlite3'))(':memory:')"); \
	fi

# The coding agents, in a folder per lock file; `harness::npm` uses the same path. The script of the one package links its program, and loads nothing.
agents: ## Install the coding agents that tests of attache connect run, 1.3 GB.
	@if [ ! -e "$(AGENTS)" ]; then \
		command -v npm >/dev/null || { echo "Node.js 20 or newer and npm are needed for the coding agents: install them" >&2; exit 1; }; \
		$(call npm_folder,$(AGENTS),tests/agents,&& npm rebuild @anthropic-ai/claude-code); \
	fi

fmt: ## Format the code.
	cargo fmt --all

schema: ## Write docs/config.schema.json and the tables of routes again, after a setting or a route changed.
	ATTACHE_WRITE_SCHEMA=1 cargo nextest run --locked --workspace --all-features --test tidy -E 'test(the_schema_of_the_configuration) + test(the_tables_of_routes)'

pictures: ## Take the pictures of docs/pictures again, from a seeded server, after a page changed.
	ATTACHE_WRITE_PICTURES=1 cargo nextest run --locked --workspace --all-features --test browser -E 'test(the_pictures_of_the_documents)'

# The advisory database is a git repository. If it cannot be fetched, the other checks run and a message says so.
deny:
	@if cargo deny --locked --workspace fetch db; then \
		cargo deny --locked --workspace check; \
	else \
		echo "ADVISORIES NOT CHECKED: the advisory database cannot be fetched from here" >&2; \
		cargo deny --locked --workspace check bans licenses sources; \
	fi

comma := ,

# Installs Debian's packages $(2) unless the commands $(1) succeed; a user who may not install reads $(3).
define debian
@if ! ( $(1) ) >/dev/null 2>&1; then \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $(2); \
	else \
		echo $(3) >&2; \
	fi; \
fi
endef

# Programs that the tests need and cargo does not install.
tools:
	@command -v cargo-nextest >/dev/null || cargo install --locked cargo-nextest
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	$(call debian,command -v jq && command -v curl,curl jq,"curl and jq are needed for the walk of the README: install them")
	$(call debian,command -v initdb || ls /usr/lib/postgresql/*/bin/initdb,postgresql,"PostgreSQL 15 or newer is needed for the tests: install it$(comma) or put its programs in PATH")
	@# The programs that read the samples of docs/deploy. Two of them are in a folder for administrators.
	$(call debian,PATH="$$PATH:/usr/sbin"; command -v haproxy && command -v nginx && command -v caddy && command -v systemd-analyze,caddy haproxy nginx-light systemd,"caddy$(comma) haproxy$(comma) nginx and systemd-analyze are needed for the tests of docs/deploy: install them")
	@# The validators of packages.
	$(call debian,command -v lintian && command -v skopeo && command -v zstd,lintian skopeo zstd,"lintian$(comma) skopeo and zstd are needed for the tests of packages: install them")
	@# An empty Debian, in which a test installs the package.
	$(call debian,command -v mmdebstrap,mmdebstrap,"mmdebstrap is needed for the test of the Debian package: install it")
	@archive="$(CACHE)/debian-$$(. /etc/os-release; echo "$$VERSION_CODENAME").tar"; \
	if [ ! -e "$$archive" ] && command -v mmdebstrap >/dev/null && [ "$$(id -u)" = 0 ]; then \
		mkdir -p "$(CACHE)" && mmdebstrap --quiet --variant=minbase --include=adduser,ca-certificates "$$(. /etc/os-release; echo "$$VERSION_CODENAME")" "$$archive.new.tar" && \
		mv "$$archive.new.tar" "$$archive"; \
	fi
	$(call debian,command -v chromedriver,chromium chromium-driver,"Chromium and its chromedriver are needed for the tests of the pages: install them")
	$(call debian,command -v node && command -v npm,nodejs npm,"Node.js 18 or newer and npm are needed for the tests of pages and sign-in: install them")
	@# A folder per lock file; `harness::npm` uses the same path.
	@folder="$${ATTACHE_TEST_NPM:-$(CACHE)/npm-$$(sha256sum tests/npm/package-lock.json | cut -c 1-16)}"; \
	if [ ! -e "$$folder" ] && command -v npm >/dev/null; then \
		$(call npm_folder,$$folder,tests/npm); \
	fi
	@# The versions of PostgreSQL; `postgres-cluster` uses the same path. The script of a package links its libraries, and loads nothing.
	@folder="$(CACHE)/npm-postgres-$$(sha256sum tests/postgres/package-lock.json | cut -c 1-16)"; \
	if [ ! -e "$$folder" ] && command -v npm >/dev/null; then \
		$(call npm_folder,$$folder,tests/postgres,&& npm rebuild); \
	fi
	$(call debian,python3 -c 'import ensurepip$(comma) venv',python3 python3-venv,"Python 3.10 or newer with venv is needed for the tests of mail$(comma) guides$(comma) descriptions and packages: install it")
	@# The same for each list of Python packages; `harness::python` uses the same path.
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
