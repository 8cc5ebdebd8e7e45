// Package guest is what runs inside the container: the init that is its PID 1, and the helpers that the init starts as the
// session's user to unpack, to probe and to capture. It imports only the wire and the change stream.
//
// The init has the uid 0 of the container and of all capabilities only SETUID and SETGID. It uses them on single threads,
// made before the session begins: to start the session's processes, to signal them and to write into their folders. It exits, and the container with it,
// when the wire closes, when the worker no longer answers, or when its time is over.
package guest
