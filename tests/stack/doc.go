// Package stack is the local stack the tests and the demo run on: Postgres, a Docker engine, Vault and git servers,
// all real, all its own, on loopback or on unix sockets.
//
// Up starts what is missing, Down stops all of it and leaves nothing behind but caches; both may be called at any
// time and any number of times. What runs, and where, is written to stack.json in the state folder. Tests find it with
// Load and never start it themselves.
//
// It imports nothing of the product, so that every package of the product may use it in tests. It promises no
// durability: Postgres runs without fsync and Vault in memory.
package stack
