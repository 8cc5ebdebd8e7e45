package canonical

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The sample of RFC 8785, section 3.2.2, with its bytes from section 3.2.4. B18
func TestCanonicalFormOfTheRFCSample(t *testing.T) {
	t.Parallel()
	out, err := canonicalize([]byte(`{
		"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		"literals": [null, true, false]
	}`))
	require.NoError(t, err)
	want := "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b333333333333333333" +
		"2e333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c753030" +
		"30665c6e4127425c225c5c5c5c5c222f227d"
	require.Equal(t, want, hex.EncodeToString(out))
}

// The sorting sample of RFC 8785, section 3.2.3: by UTF-16 code units, not by bytes. B18
func TestMembersAreSortedAsTheRFCSorts(t *testing.T) {
	t.Parallel()
	out, err := Marshal(map[string]string{
		"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
		"\U0001f600": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis",
	})
	require.NoError(t, err)
	require.Equal(t, `{"\r":"Carriage Return","1":"One","`+"\u0080"+`":"Control","ö":"Latin Small Letter O With Diaeresis",`+
		`"€":"Euro Sign","😀":"Emoji: Grinning Face","`+"\ufb33"+`":"Hebrew Letter Dalet With Dagesh"}`, string(out))
}

// Appendix B of RFC 8785. Our documents hold none of the fractions, but the form is the RFC's all the same. B18
func TestNumbersAreWrittenAsTheRFCWritesThem(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		text, err := json.Marshal(math.Float64frombits(bits))
		require.NoError(t, err)
		out, err := canonicalize(text)
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
}

// Two independent implementations of the RFC agree on everything we can write. B18
func TestCanonicalFormAgreesWithAnotherImplementation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(t, "strings")
		numbers := rapid.MapOf(rapid.String(), rapid.Int64Range(-MaxSafeInteger, MaxSafeInteger)).Draw(t, "numbers")
		value := struct {
			Z map[string][]string `json:"z"`
			A map[string]int64    `json:"a"`
		}{doc, numbers}
		ours, err := Marshal(value)
		require.NoError(t, err)
		text, err := json.Marshal(value)
		require.NoError(t, err)
		theirs, err := jcs.Transform(text)
		require.NoError(t, err)
		require.Equal(t, string(theirs), string(ours))
		again, err := Transform(ours, Bounds{})
		require.NoError(t, err)
		require.Equal(t, ours, again)
	})
}

// CASES 43. B18, B19
func TestWhatHasNoExactFormIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"2^53":             map[string]int64{"a": 1 << 53},
		"-2^53":            map[string]int64{"a": -1 << 53},
		"unsigned":         map[string]uint64{"a": math.MaxUint64},
		"fraction":         map[string]float64{"a": 1.5},
		"infinity":         map[string]float64{"a": math.Inf(1)},
		"bad UTF-8":        map[string]string{"a": "\xff"},
		"bad UTF-8 name":   map[string]string{"\xff": "a"},
		"UTF-8 surrogate":  map[string]string{"a": "\xed\xa0\x80"},
		"channel":          make(chan int),
		"untyped fraction": []any{0.1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Marshal(v)
			require.Error(t, err)
		})
	}
	out, err := Marshal(map[string]int64{"max": MaxSafeInteger, "min": -MaxSafeInteger})
	require.NoError(t, err)
	require.Equal(t, `{"max":9007199254740991,"min":-9007199254740991}`, string(out))
}

func TestNilAndEmptyHaveOneForm(t *testing.T) {
	t.Parallel()
	type doc struct {
		List []string          `json:"list"`
		Map  map[string]string `json:"map"`
	}
	a, err := Marshal(doc{})
	require.NoError(t, err)
	b, err := Marshal(doc{List: []string{}, Map: map[string]string{}})
	require.NoError(t, err)
	require.Equal(t, `{"list":[],"map":{}}`, string(a))
	require.Equal(t, a, b)
}

// B18
func TestDigestKeepsDomainsApart(t *testing.T) {
	t.Parallel()
	doc := map[string]string{"a": "b"}
	one, err := Digest("one", doc)
	require.NoError(t, err)
	two, err := Digest("two", doc)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	require.True(t, ValidDigest(one))
	// printf 'one\n{"a":"b"}' | sha256sum
	require.Equal(t, "sha256:654343f1242aefc71dfad8cef2fcdbf9e4fb70a7b2139c25b3b0928fd17ea6c3", one)
	same, err := DigestBytes("one", []byte(`{"a":"b"}`))
	require.NoError(t, err)
	require.Equal(t, one, same)
	for _, domain := range []string{"", "a\nb", "a\r"} {
		_, err := Digest(domain, doc)
		require.ErrorIs(t, err, ErrDomain)
	}
}

func TestValidDigestTakesOneFormOnly(t *testing.T) {
	t.Parallel()
	hex := strings.Repeat("0a", 32)
	require.True(t, ValidDigest("sha256:"+hex))
	for _, s := range []string{
		"", hex, "sha256:", "sha256:" + hex[1:], "sha256:" + hex + "0", "SHA256:" + hex, "sha256:" + strings.ToUpper(hex),
		"sha256:" + strings.Repeat("0g", 32), " sha256:" + hex, "sha512:" + hex,
	} {
		require.False(t, ValidDigest(s), s)
	}
}
