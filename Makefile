# The whole project runs with these targets. Those that need the local stack (Postgres, a Docker engine, Vault, git servers) start it
# and stop it again if it was not running; KEEP=1 leaves it running. As root, on Debian: what is missing is installed.

.PHONY: help demo test check build bench fuzz soak faults upgrade mutants up down status
.DEFAULT_GOAL := help

# The tools, by version.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

STACK := go run ./tests/stack/cmd/stack
FUZZTIME ?= 120s
DURATION ?= 10m
RESULTS ?= $(CURDIR)/bin/faults.jsonl

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 14

demo: ## the main job on a real repository, with its evidence
	@$(STACK) with go run ./tests/demo/cmd/demo

test: ## every test, on the real parts, with the race detector; then the requirements against what ran
	@$(STACK) with ./tests/run

check: ## format, vet, staticcheck, architecture rules, and the release build
	@unformatted=$$(go run $(GOFUMPT) -l . ) && test -z "$$unformatted" || { echo "not formatted (run: go run $(GOFUMPT) -w .):"; echo "$$unformatted"; exit 1; }
	@go vet ./...
	@go vet -tags failpoint ./...
	@cd tests/vault && go vet ./...
	@go run $(STATICCHECK) ./...
	@go test ./tests/architecture
	@$(MAKE) --no-print-directory build

build: ## the release binary, bin/harness: static, since it is the sandbox's init too
	@CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/harness ./cmd/harness

bench: ## the benchmarks, as ratios: governed run against a script, run against bare job, publication against git push
	@$(STACK) with go run ./tests/bench/cmd/bench

fuzz: ## every fuzzer, FUZZTIME each (default 120s)
	@./tests/fuzz $(FUZZTIME)

soak: ## workers under random faults, judged by models: DURATION (10m), SEED (random), FAULTS (all), FOLDER for the record
	@$(STACK) with env SOAK_DURATION=$(DURATION) SOAK_SEED=$(SEED) SOAK_FAULTS='$(FAULTS)' SOAK_FOLDER='$(FOLDER)' \
		go test ./tests/robustness -run TestNoFaultLosesDoublesOrLeaksAnything -count=1 -v -timeout 12h

faults: ## every fault at every boundary of a run, and docs/faults.md from it; goes on where it was stopped: RESULTS (bin/faults.jsonl)
	@$(STACK) with ./tests/faults/run $(RESULTS)

upgrade: ## workers of the version at FROM (a commit) replaced by this one's under load
	@$(STACK) with env UPGRADE_FROM='$(FROM)' go test ./tests/lease -run TestAVersionIsReplacedUnderLoadAndNoRunFails -count=1 -v

mutants: ## faults put into the code one by one, each of which a test must find and name: MUTANT=name for one
	@$(STACK) with go run ./tests/mutants/cmd/mutants $(MUTANT)

up: ## start the local stack
	@$(STACK) up

down: ## stop the local stack
	@$(STACK) down

status: ## what of the local stack runs
	@$(STACK) status
