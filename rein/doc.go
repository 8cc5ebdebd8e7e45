// Package rein runs sessions: a rein is the backend that does the work inside a sandbox.
//
// Today there is one rein, `command`: an argv that the profile pins, with the task as a file. A rein has no authority of its
// own. It runs with the credentials that were released to this session and no others, under a tool profile and a model route
// that are stated in full: what is left out is refused, never guessed. Its output goes, masked and escaped and bounded, to the
// session log; evidence has the log's length and digest.
//
// It imports sandbox, evidence and rein/credential. It promises that a session which could not be set up as declared is not
// started, and that the end of a session is reported with what was seen of it, whatever the end was.
package rein
