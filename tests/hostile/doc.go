// Package hostile shows what becomes of the outputs of hostile sessions, as whole governed runs: each is refused with the code of its
// rule and leaves nothing on the remote, or is legitimate and lands byte for byte. What the remote has is asked of stock git alone.
package hostile
