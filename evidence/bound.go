package evidence

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rein-aharness/harness/internal/canonical"
)

// bodyBudget bounds the text of one body, whatever its fields' own bounds add up to.
const bodyBudget = 1 << 20

// bodyBounds is what a stored body may be: the budget, doubled for JSON's own escapes, and the frame around it.
var bodyBounds = canonical.Bounds{MaxBytes: 4 << 20, MaxDepth: 8, MaxValues: 16384, MaxString: 8192}

// seal escapes and bounds a body and returns its canonical bytes. The caller's value is not changed.
func seal(b Body) (Body, []byte, error) {
	v := reflect.Indirect(reflect.ValueOf(b))
	if !v.IsValid() {
		return nil, nil, fmt.Errorf("%w: no body", ErrFactMalformed)
	}
	sealed := reflect.New(v.Type()).Elem()
	sealed.Set(v)
	w := walker{budget: bodyBudget, cut: map[string]int{}}
	if err := w.fields(sealed, ""); err != nil {
		return nil, nil, err
	}
	sealed.FieldByName("Cuts").Set(reflect.ValueOf(Cuts{Cut: w.cut}))
	out := sealed.Interface().(Body)
	data, err := canonical.Marshal(out)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	return out, data, nil
}

// open decodes stored bytes as the body of one kind. It accepts exactly the bytes that seal can have made.
func open(k Kind, data []byte) (Body, error) {
	r, ok := ruleOf(k)
	if !ok {
		return nil, fmt.Errorf("%w: unknown kind %q", ErrFactMalformed, Clean(string(k), 64))
	}
	v := reflect.New(r.bodyType())
	if err := canonical.DecodeJSON(data, v.Interface(), bodyBounds); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	again, err := canonical.Marshal(v.Interface())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	if !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: the body is not in canonical form", ErrFactMalformed)
	}
	w := walker{check: true}
	if err := w.fields(v.Elem(), ""); err != nil {
		return nil, err
	}
	return v.Elem().Interface().(Body), nil
}

// walker goes through a body's strings, lists and maps. It either bounds them, or with check set only looks whether they are.
type walker struct {
	check  bool
	budget int            // bytes of text that may still be taken
	cut    map[string]int // entries left out, by path
}

type limits struct{ max, items int }

func (w *walker) fields(v reflect.Value, path string) error {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[Cuts]() {
			if w.check {
				if err := w.fields(v.Field(i), path); err != nil {
					return err
				}
			}
			continue
		}
		name, _, _ := bytes.Cut([]byte(f.Tag.Get("json")), []byte(","))
		lim := limits{tagged(f, "max", defaultMaxString), tagged(f, "items", defaultMaxItems)}
		if err := w.value(v.Field(i), join(path, string(name)), lim); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) value(v reflect.Value, path string, lim limits) error {
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64:
		return nil
	case reflect.String:
		return w.text(v, path, lim.max)
	case reflect.Struct:
		return w.fields(v, path)
	case reflect.Slice:
		return w.list(v, path, lim)
	case reflect.Map:
		return w.table(v, path, lim)
	default:
		return fmt.Errorf("%w: %s has no bound", ErrFactMalformed, path)
	}
}

func (w *walker) text(v reflect.Value, path string, limit int) error {
	if !known(v.Interface()) {
		return fmt.Errorf("%w: %s holds a value outside its closed set", ErrFactMalformed, path)
	}
	if !w.check {
		s := Clean(v.String(), limit)
		w.budget -= len(s)
		v.SetString(s)
		return nil
	}
	return checkText(v.String(), path, limit)
}

func (w *walker) list(v reflect.Value, path string, lim limits) error {
	if w.check {
		if v.Len() > lim.items {
			return fmt.Errorf("%w: %s has more than %d entries", ErrFactMalformed, path, lim.items)
		}
		for i := range v.Len() {
			if err := w.value(v.Index(i), join(path, strconv.Itoa(i)), lim); err != nil {
				return err
			}
		}
		return nil
	}
	kept := reflect.MakeSlice(v.Type(), 0, min(v.Len(), lim.items))
	for i := range v.Len() {
		if kept.Len() == lim.items || w.budget <= 0 {
			w.cut[path] = v.Len() - kept.Len()
			break
		}
		kept = reflect.Append(kept, v.Index(i))
		if err := w.value(kept.Index(i), join(path, strconv.Itoa(i)), lim); err != nil {
			return err
		}
	}
	v.Set(kept)
	return nil
}

// table bounds a map of strings or counts. Entries are taken in the order of their keys; a key that after being cut is the same
// as another one is left out and counted.
func (w *walker) table(v reflect.Value, path string, lim limits) error {
	switch m := v.Interface().(type) {
	case map[string]int: // Cuts itself, which only this walker fills
		for k, n := range m {
			if n <= 0 || len(m) > lim.items {
				return fmt.Errorf("%w: %s is not a table of cuts", ErrFactMalformed, path)
			}
			if err := checkText(k, path, lim.max); err != nil {
				return err
			}
		}
		return nil
	case map[string]string:
		if w.check {
			return w.checkTable(m, path, lim)
		}
		kept := make(map[string]string, min(len(m), lim.items))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			key, value := Clean(k, defaultMaxString), Clean(m[k], lim.max)
			if _, taken := kept[key]; taken || len(kept) == lim.items || w.budget <= 0 {
				w.cut[path]++
				continue
			}
			w.budget -= len(key) + len(value)
			kept[key] = value
		}
		v.Set(reflect.ValueOf(kept))
		return nil
	default:
		return fmt.Errorf("%w: %s has no bound", ErrFactMalformed, path)
	}
}

func (w *walker) checkTable(m map[string]string, path string, lim limits) error {
	if len(m) > lim.items {
		return fmt.Errorf("%w: %s has more than %d entries", ErrFactMalformed, path, lim.items)
	}
	for k, s := range m {
		if err := checkText(k, path, defaultMaxString); err != nil {
			return err
		}
		if err := checkText(s, path, lim.max); err != nil {
			return err
		}
	}
	return nil
}

// checkText reports whether s can be the result of Clean with this limit.
func checkText(s, path string, limit int) error {
	if len(s) > limit+markLimit {
		return fmt.Errorf("%w: %s is longer than %d bytes", ErrFactMalformed, path, limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s is not UTF-8", ErrFactMalformed, path)
	}
	for _, r := range s {
		if hidden(r) {
			return fmt.Errorf("%w: %s holds a character that does not show itself", ErrFactMalformed, path)
		}
	}
	return nil
}

// known reports whether a value of one of the closed sets belongs to it. The empty value stands for "none" and is known.
func known(v any) bool {
	switch v := v.(type) {
	case Stage:
		return v == "" || slices.Contains(Stages(), v)
	case Code:
		return v == "" || slices.Contains(Codes(), v)
	case Effect:
		return v == "" || slices.Contains(Effects(), v)
	case State:
		return v == "" || slices.Contains(States(), v)
	case Outcome:
		return v == "" || slices.Contains(Outcomes(), v)
	case Actor:
		return v.Valid()
	default:
		return true
	}
}

func tagged(f reflect.StructField, key string, otherwise int) int {
	text, ok := f.Tag.Lookup(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic("evidence: the tag " + key + " of " + f.Name + " is not a number") // a programming error that every test of a body meets
	}
	return n
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
