# The whole project runs with these targets; `make up` installs and starts what they need (as root, on Debian).

.PHONY: up down status test
STACK := go run ./tests/stack/cmd/stack

up:
	@$(STACK) up
down:
	@$(STACK) down
status:
	@$(STACK) status

# Every test on the real stack, printed as `go test` prints it; then docs/requirements.md against what ran.
test: up
	@go test -json -race -timeout 30m ./... | go run ./tests/requirements/cmd/testlog -out .stack/test.json
	@go run ./tests/requirements/cmd/check -results .stack/test.json
