package secretform

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MinLength is the least length, in bytes, of a line that is looked for by itself. Shorter ones occur by chance. Whole values
// are looked for at any length; who releases values should refuse shorter ones.
const MinLength = 6

// Forms lists the distinct forms of the values: each value and each of its lines, raw, in base64 (standard and URL alphabet,
// at each of the three alignments), in hex (both cases), URL-encoded (as query and as path, both cases of the escapes) and as it
// stands between the quotes of JSON (with and without the escapes of HTML) and of Go.
// The lines that only frame a PEM block are left out: they are no secret.
func Forms(values ...[]byte) [][]byte {
	seen := map[string]bool{}
	var forms [][]byte
	add := func(form string) {
		if form != "" && !seen[form] {
			seen[form] = true
			forms = append(forms, []byte(form))
		}
	}
	for _, value := range values {
		for _, part := range parts(value) {
			for _, form := range encodings(part) {
				add(form)
			}
		}
	}
	return forms
}

// parts are the value itself, the value without surrounding white space, and its lines.
func parts(value []byte) [][]byte {
	all := [][]byte{value, bytes.TrimSpace(value)}
	for line := range bytes.Lines(value) {
		line = bytes.TrimSpace(line)
		if len(line) >= MinLength && !bytes.HasPrefix(line, []byte("-----BEGIN ")) && !bytes.HasPrefix(line, []byte("-----END ")) {
			all = append(all, line)
		}
	}
	return all
}

func encodings(part []byte) []string {
	if len(part) == 0 {
		return nil
	}
	raw := string(part)
	lower := hex.EncodeToString(part)
	query, path := url.QueryEscape(raw), url.PathEscape(raw)
	all := append(quoted(raw), raw, lower, strings.ToUpper(lower), query, path, lowerEscapes(query), lowerEscapes(path))
	if len(part) < MinLength {
		return all // its base64 inside other data is a few letters
	}
	for shift := range 3 {
		all = append(all, aligned(part, shift, base64.RawStdEncoding), aligned(part, shift, base64.RawURLEncoding))
	}
	return all
}

// quoted is the text as string literals hold it, without their quotes.
func quoted(text string) []string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)         // a buffer takes everything, and a string can always be encoded
	forHTML, _ := json.Marshal(text) // likewise
	all := []string{strings.TrimSuffix(plain.String(), "\n"), string(forHTML), strconv.Quote(text), strconv.QuoteToASCII(text)}
	for i, literal := range all {
		all[i] = literal[1 : len(literal)-1]
	}
	return all
}

// aligned is what of the value's base64 does not depend on its neighbours, when shift bytes stand before it in its group of
// three. The few bits at the ends that mix with a neighbour are left out.
func aligned(part []byte, shift int, encoding *base64.Encoding) string {
	text := encoding.EncodeToString(slices.Concat(make([]byte, shift), part))
	from := (shift*8 + 5) / 6
	to := (shift + len(part)) * 8 / 6
	return text[from:to]
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(escaped string) string {
	b := []byte(escaped)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}
