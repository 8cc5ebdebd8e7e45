// Package schedule shows that a schedule neither loses nor doubles a due time while the processes that keep it are killed.
package schedule
