// Package sandbox is the Docker venue: one container, one session, one wire (DESIGN §5). It is the only package that speaks to
// Docker. It may import evidence.
//
// What it promises: a sandbox is created from an image given by its id, with no network, a read-only root and sized writable
// mounts; its posture is observed, by the engine's inspect and by a probe inside, before a session may begin; it does not outlive
// its wire, its worker or its TTL; what comes out of it is bounded and refused by name where it breaks a rule. A sandbox that
// differs from what its profile declares is torn down and never handed out.
//
// What comes over the wire after the session began is the session's claim. Nothing here writes it to the worker's disk.
package sandbox
