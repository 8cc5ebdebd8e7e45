package wire

// Facts is what the probe sees from inside, as the session's user. Nothing in it is judged: the worker does that.
type Facts struct {
	UID           int               `json:"uid"`
	GID           int               `json:"gid"`
	Groups        []int             `json:"groups"`
	Status        map[string]string `json:"status"`         // of the probe itself: capability sets, NoNewPrivs, Seccomp
	NoNewPrivs    bool              `json:"no_new_privs"`   // of the probe itself, asked of the kernel
	InitStatus    map[string]string `json:"init_status"`    // of PID 1, likewise
	InitEnv       []string          `json:"init_env"`       // names in PID 1's environment, where the session can read it
	Kernel        string            `json:"kernel"`         // release
	Interfaces    []string          `json:"interfaces"`     // of the network
	Mounts        map[string]Mount  `json:"mounts"`         // by target
	Writable      []string          `json:"writable"`       // folders in which a file could be made
	Sockets       []string          `json:"sockets"`        // sockets of engines that could be reached
	Breaches      []string          `json:"breaches"`       // what worked against PID 1 and must not
	FileBytes     uint64            `json:"file_bytes"`     // rlimit
	OpenFiles     uint64            `json:"open_files"`     // rlimit
	CoreBytes     uint64            `json:"core_bytes"`     // rlimit
	OOMScore      string            `json:"oom_score"`      // oom_score_adj of the probe
	CgroupMemory  string            `json:"cgroup_memory"`  // limit in bytes; empty: not visible
	CgroupPids    string            `json:"cgroup_pids"`    // limit
	CgroupCPU     string            `json:"cgroup_cpu"`     // "quota period"
	CgroupWritten bool              `json:"cgroup_written"` // a limit could be changed from inside
}

// Mount is one line of the mount table.
type Mount struct {
	Type     string `json:"type"`
	ReadOnly bool   `json:"read_only"`
	Bytes    uint64 `json:"bytes"`
	Inodes   uint64 `json:"inodes"`
}
