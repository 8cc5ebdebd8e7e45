// Command harness is the command line of the harness. Each command parses its flags, makes one or a few calls to the packages
// that do the work, and prints what they say; it decides nothing itself.
//
// The first argument `init-sandbox` is no command: under it the same binary is the init of a sandbox, and main does nothing else
// before that.
//
// It promises: results go to standard output and everything else to standard error; nothing from the database, the remote or a
// session reaches either unescaped; with --json the output is one document, or one per line where it says so, whose fields only
// ever grow; and the exit code is that of evidence.ExitCode, for a run by how it ended.
//
// It may import every package of the product.
package main
