// Package machine reads what the machine has to spare. It imports nothing of the product; Linux only.
package machine
