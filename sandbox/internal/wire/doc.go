// Package wire holds what the worker and the in-container init say to each other: typed frames on the streams of one
// multiplexed connection. It imports nothing of ours, so that both ends and the fuzzers share exactly one codec.
//
// Every frame is bounded in both directions. What the worker reads here is hostile input: a frame of an unknown kind, an
// over-long one or one out of turn ends the stream with ErrMalformed.
package wire
