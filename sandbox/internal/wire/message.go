package wire

// Version is the protocol's; both ends are the same binary, so another version means a wrong init volume.
const Version = 1

// Op names what a stream asks of the init.
type Op string

// The operations.
const (
	OpHello   Op = "hello"   // is the init there, and which is it
	OpExec    Op = "exec"    // run a command as the session's user
	OpPut     Op = "put"     // write one small file into the session's run folder, as the session's user
	OpQuiesce Op = "quiesce" // end every process but the init
)

// Req opens a stream.
type Req struct {
	Op   Op    `json:"op"`
	Exec *Exec `json:"exec,omitempty"`
	Put  *Put  `json:"put,omitempty"`
	Seal bool  `json:"seal,omitempty"` // of quiesce: from now on no command of the session starts
}

// Exec describes a command. Its environment is exactly Env. What the kernel takes as bytes travels as bytes: JSON strings would
// change what is not UTF-8.
type Exec struct {
	Argv  [][]byte `json:"argv"`
	Env   [][]byte `json:"env"`
	Dir   []byte   `json:"dir"`
	Stdin bool     `json:"stdin"` // Data frames follow; otherwise standard input is empty
	// Helper marks one of the init binary's own helpers: its standard error comes apart from the output, bounded, in the result,
	// and it may start after the session was sealed.
	Helper bool `json:"helper"`
}

// Bytes converts a list of strings for the wire.
func Bytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

// Strings is the other way round.
func Strings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// Put describes a file; Data frames and End follow. Name is one path segment.
type Put struct {
	Name string `json:"name"`
	Mode uint32 `json:"mode"`
}

// Res closes a stream.
type Res struct {
	Error    string `json:"error,omitempty"` // what the init could not do
	NoStart  bool   `json:"no_start,omitempty"`
	Version  int    `json:"version,omitempty"`
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	OOMKills int64  `json:"oom_kills"` // kills by the memory limit while the command ran; -1: the runtime does not tell
	Left     int    `json:"left"`      // processes that quiesce could not end
}

// Exit codes of the helper processes, by which the worker tells a refusal from a crash.
const (
	HelperOK      = 0
	HelperFailed  = 70
	HelperRefused = 71 // the input archive is not acceptable
	HelperNoSpace = 72 // the workspace is full
)
