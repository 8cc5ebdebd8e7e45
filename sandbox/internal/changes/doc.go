// Package changes is the change stream: what a workspace holds after the session, as one sequence of entries in a fixed order.
// The helper in the container encodes it, the worker decodes it as hostile input: every count, length and order is checked, and a
// stream that could not have come from the encoder is refused. It imports nothing of ours.
package changes
