package canonical

// Bounds limits a document before it is understood. A zero field means the package's default; no bound can be switched off.
type Bounds struct {
	MaxBytes  int // of the whole document
	MaxDepth  int // of nested objects and arrays
	MaxValues int // objects, arrays, scalars and member names, all counted together
	MaxString int // bytes of one decoded string or member name
}

// The defaults of a zero Bounds.
const (
	DefaultMaxBytes  = 1 << 20
	DefaultMaxDepth  = 32
	DefaultMaxValues = 65536
	DefaultMaxString = 256 << 10
)

// MaxSafeInteger is the largest integer that every JSON reader holds exactly: 2^53-1. Its negative is the smallest.
const MaxSafeInteger = 1<<53 - 1

func (b Bounds) withDefaults() Bounds {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&b.MaxBytes, DefaultMaxBytes},
		{&b.MaxDepth, DefaultMaxDepth},
		{&b.MaxValues, DefaultMaxValues},
		{&b.MaxString, DefaultMaxString},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return b
}
