package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// State is what the stack knows about itself: endpoints, paths of credential files and processes, never a credential.
// It is written to stack.json (mode 0600) after each part that starts.
type State struct {
	// Dir is the state folder: stack.json, credential files, logs. Only its owner may enter it.
	Dir string `json:"dir"`
	// Data is the volatile folder of the parts: database files, engine root, sockets, repositories. It is outside Dir
	// because other users must reach parts of it and because the path of a socket is short.
	Data string `json:"data"`
	// Processes are the parts that run as processes of the stack, by name.
	Processes map[string]Process `json:"processes"`

	Postgres Postgres          `json:"postgres"`
	Docker   Docker            `json:"docker"`
	Vault    Vault             `json:"vault"`
	Git      GitServers        `json:"git"`
	Images   map[string]string `json:"images"`   // name → image id, "sha256:<config digest>"
	Archives map[string]string `json:"archives"` // name → archive that the image was loaded from
	Demo     Demo              `json:"demo"`
}

// Postgres is the database cluster. The superuser's password is in PasswordFile only.
type Postgres struct {
	Host         string `json:"host"`
	Port         int    `json:"port"`
	User         string `json:"user"`
	PasswordFile string `json:"password_file"`
	// URLFile holds the URL of the database "harness", password included.
	URLFile string `json:"url_file"`
}

// Docker is the engine.
type Docker struct {
	Host string `json:"host"` // as DOCKER_HOST wants it
}

// Vault is the credential store, configured for the harness.
type Vault struct {
	Address       string `json:"address"`
	RootTokenFile string `json:"root_token_file"`
	// RoleIDFile and SecretIDFile log a worker in, by AppRole.
	RoleIDFile   string `json:"role_id_file"`
	SecretIDFile string `json:"secret_id_file"`
	// TokenRole is the token role a worker creates its session tokens on.
	TokenRole string `json:"token_role"`
	// SigningKeyFile is the public half of the signing key, PKIX PEM.
	SigningKeyFile string `json:"signing_key_file"`
	Configured     bool   `json:"configured"`
	// Program is the server's program; Dev says that it is a whole vault or bao in its dev mode.
	Program string `json:"program"`
	Dev     bool   `json:"dev"`
	// Foreign says that the server was there before (VAULT_ADDR); Mounts are the mounts that the stack added to it.
	Foreign bool     `json:"foreign"`
	Mounts  []string `json:"mounts"`
}

// GitServers are two git servers over one folder of repositories.
type GitServers struct {
	Root  string `json:"root"`
	HTTP  string `json:"http"`  // "http://127.0.0.1:<port>"
	HTTPS string `json:"https"` // the same with TLS, by the private CA in CAFile
	SSH   string `json:"ssh"`   // "ssh://git@127.0.0.1:<port>"

	Username       string `json:"username"`
	PasswordFile   string `json:"password_file"`
	CAFile         string `json:"ca_file"`
	SSHKeyFile     string `json:"ssh_key_file"`
	KnownHostsFile string `json:"known_hosts_file"`
	// SSHCAFile is the public key of Vault's ssh CA; the ssh server accepts its certificates for the user git.
	SSHCAFile string `json:"ssh_ca_file"`
}

// Demo is the repository of the main job: a real Go module with one commit per published version.
type Demo struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Baseline string `json:"baseline"`
}

// stateFile is the name of the state inside the state folder.
const stateFile = "stack.json"

// ErrNotUp says that no stack was started for the state folder.
var ErrNotUp = errors.New("the stack is not up")

// Folder is the state folder: HARNESS_STACK, or .stack in the checkout that holds the working directory.
func Folder() (string, error) {
	if dir := os.Getenv("HARNESS_STACK"); dir != "" {
		return filepath.Abs(dir)
	}
	checkout, err := Checkout()
	if err != nil {
		return "", err
	}
	return filepath.Join(checkout, ".stack"), nil
}

// Checkout is the root of the checkout that holds the working directory: the nearest folder above with the
// Makefile and go.mod of the project.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.mod")) && exists(filepath.Join(dir, "tests", "stack")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of the harness", start)
		}
	}
}

// CacheFolder is where what is slow to make is kept between stacks: the Vault server, image archives, repositories.
func CacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "rein-aharness")
	return dir, os.MkdirAll(dir, 0o755)
}

// Read gives the state in a folder. Without one the error is ErrNotUp.
func Read(dir string) (*State, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (no %s in %s)", ErrNotUp, stateFile, dir)
	}
	if err != nil {
		return nil, err
	}
	state := new(State)
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("read %s: %w", stateFile, err)
	}
	return state, nil
}

// newState is the state of a stack of which nothing runs yet. The data folder's name follows from the state folder,
// so a stack whose state was lost still finds what it left.
func newState(dir string) *State {
	name := sha256.Sum256([]byte(dir))
	return &State{
		Dir:       dir,
		Data:      filepath.Join("/var/tmp", "rein-stack-"+hex.EncodeToString(name[:4])),
		Processes: map[string]Process{},
		Images:    map[string]string{},
		Archives:  map[string]string{},
	}
}

func (s *State) write() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(s.file(stateFile), append(data, '\n'))
}

// file is a path in the state folder.
func (s *State) file(name string) string { return filepath.Join(s.Dir, name) }

// data is a path in the data folder.
func (s *State) data(names ...string) string {
	return filepath.Join(append([]string{s.Data}, names...)...)
}

// log is the file that gets the output of a part.
func (s *State) log(part string) string { return filepath.Join(s.Dir, "log", part+".log") }

// writeFile makes a file of the owner's alone appear whole or not at all.
func writeFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
