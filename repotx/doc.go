// Package repotx is the repository transaction of one run: baseline, tree, commit, fence, publication, settling.
//
// A session's changes reach the remote as one commit or not at all. The content comes in as data, is checked against the
// grant, becomes git objects without ever being written to a checkout, and is pushed in one atomic request that also moves
// the run's fence ref. What the remote holds afterwards, never what it answered alone, decides the effect.
//
// It is the only package that speaks git. It uses go-git's plumbing (pack reading, object decoding, wire messages) and
// none of its porcelain, and never runs the git command. It speaks the smart protocol over https, over http to a loopback
// address, and over ssh, through its own two transports: contexts end every call, every answer is bounded, no redirect is
// followed and no file of the user (ssh config, credential helper, proxy variable) is read.
//
// It imports evidence and internal packages only.
package repotx
