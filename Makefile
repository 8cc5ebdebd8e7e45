# The whole project runs with these targets; `make up` installs and starts what they need (as root, on Debian).

.PHONY: up down status
STACK := go run ./tests/stack/cmd/stack

up:
	@$(STACK) up
down:
	@$(STACK) down
status:
	@$(STACK) status
