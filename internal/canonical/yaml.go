package canonical

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxYAMLTokens bounds a YAML document more tightly than MaxValues can: the parser's time grows with the square of the entries of one
// mapping. A mapping's entry has three tokens, so this is some 5,000 lines, and about a second.
const maxYAMLTokens = 16384

// DecodeYAML decodes one YAML document into v, a pointer to a struct with json tags: the document is turned into JSON and then
// decoded by DecodeJSON with all its rules. Of YAML only what JSON can say is allowed: mappings with string keys, sequences,
// strings in every style, plain decimal integers, true and false. Anchors, aliases, merge keys, tags, directives, complex keys
// and a second document are refused with ErrYAMLFeature. MaxBytes bounds both the YAML and the JSON text, and whatever the bounds, a
// document has at most 16384 tokens. (B19)
func DecodeYAML(data []byte, v any, b Bounds) error {
	text, err := toJSON(data, b.withDefaults())
	if err != nil {
		return err
	}
	return DecodeJSON(text, v, b)
}

func toJSON(data []byte, b Bounds) ([]byte, error) {
	if len(data) > b.MaxBytes {
		return nil, &Error{Rule: ErrTooLarge, Detail: "at most " + strconv.Itoa(b.MaxBytes) + " bytes"}
	}
	if err := checkCharacters(data); err != nil {
		return nil, err
	}
	tokens := lexer.Tokenize(string(data))
	if err := checkTokens(tokens, b); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, parseError(err)
	}
	if len(file.Docs) != 1 {
		return nil, &Error{Rule: ErrYAMLFeature, Detail: "exactly one document is allowed"}
	}
	var out bytes.Buffer
	w := &yamlWriter{enc: jsontext.NewEncoder(&out)}
	if err := w.node(file.Docs[0].Body); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// checkCharacters admits what YAML calls printable, without a byte order mark, so that no reader sees other line ends or hidden
// ends of text.
func checkCharacters(data []byte) error {
	line := 1
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return &Error{Rule: ErrUnicode, Line: line}
		}
		switch {
		case r == '\n':
			line++
		case r == '\t', r == '\r' && i+1 < len(data) && data[i+1] == '\n':
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029', r == '\ufeff', r&0xfffe == 0xfffe:
			return &Error{Rule: ErrUnicode, Line: line, Detail: "control character"}
		}
		i += size
	}
	return nil
}

// checkTokens bounds the number of values and the nesting before the recursive parser sees the document.
func checkTokens(tokens token.Tokens, b Bounds) error {
	flow, entries, entryLine := 0, 0, 0
	if len(tokens) > maxYAMLTokens {
		return &Error{Rule: ErrTooManyValues, Detail: "at most " + strconv.Itoa(maxYAMLTokens) + " YAML tokens"}
	}
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			// "- - - -" nests without indentation, so entries on one line count as levels.
			if t.Position.Line != entryLine {
				entries, entryLine = 0, t.Position.Line
			}
			entries++
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType, token.DirectiveType:
			return unsupported(t, t.Type.String())
		case token.InvalidType:
			return &Error{Rule: ErrSyntax, Line: t.Position.Line}
		}
		if flow > b.MaxDepth || entries > b.MaxDepth || t.Position.IndentNum > 16*b.MaxDepth {
			return &Error{Rule: ErrTooDeep, Line: t.Position.Line}
		}
	}
	return nil
}

// yamlWriter writes a YAML tree as JSON text. Duplicate names are found by the encoder.
type yamlWriter struct{ enc *jsontext.Encoder }

func (w *yamlWriter) node(n ast.Node) error {
	switch n := n.(type) {
	case nil:
		return &Error{Rule: ErrNull, Detail: "the document is empty"}
	case *ast.MappingNode:
		return w.mapping(n.GetToken(), n.Values)
	case *ast.MappingValueNode:
		return w.mapping(n.GetToken(), []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		if err := w.write(n.GetToken(), jsontext.BeginArray); err != nil {
			return err
		}
		for _, v := range n.Values {
			if err := w.node(v); err != nil {
				return err
			}
		}
		return w.write(n.GetToken(), jsontext.EndArray)
	case *ast.StringNode:
		return w.write(n.Token, jsontext.String(n.Value))
	case *ast.LiteralNode:
		return w.write(n.Start, jsontext.String(n.Value.Value))
	case *ast.IntegerNode:
		if !safeInteger(n.Token.Value) {
			return &Error{Rule: ErrNumber, Pointer: w.pointer(), Line: line(n.Token)}
		}
		i, _ := strconv.ParseInt(n.Token.Value, 10, 64) // safeInteger parsed it
		return w.write(n.Token, jsontext.Int(i))
	case *ast.BoolNode:
		if n.Token.Value != "true" && n.Token.Value != "false" {
			return &Error{Rule: ErrType, Pointer: w.pointer(), Line: line(n.Token), Detail: "write true or false"}
		}
		return w.write(n.Token, jsontext.Bool(n.Value))
	case *ast.NullNode:
		return &Error{Rule: ErrNull, Pointer: w.pointer(), Line: line(n.Token)}
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &Error{Rule: ErrNumber, Pointer: w.pointer(), Line: line(n.GetToken())}
	default:
		return unsupported(n.GetToken(), n.Type().String())
	}
}

func (w *yamlWriter) mapping(start *token.Token, values []*ast.MappingValueNode) error {
	if err := w.write(start, jsontext.BeginObject); err != nil {
		return err
	}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return &Error{Rule: ErrYAMLFeature, Pointer: w.pointer(), Line: line(v.GetToken()), Detail: "a key must be a string; quote it"}
		}
		if err := w.write(key.Token, jsontext.String(key.Value)); err != nil {
			return err
		}
		if err := w.node(v.Value); err != nil {
			return err
		}
	}
	return w.write(start, jsontext.EndObject)
}

func (w *yamlWriter) write(t *token.Token, tok jsontext.Token) error {
	err := w.enc.WriteToken(tok)
	if err == nil {
		return nil
	}
	e := &Error{Rule: ErrSyntax, Pointer: w.pointer(), Line: line(t), Err: err}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e.Rule = ErrDuplicate
	}
	return e
}

func (w *yamlWriter) pointer() string { return string(w.enc.StackPointer()) }

func unsupported(t *token.Token, what string) error {
	return &Error{Rule: ErrYAMLFeature, Line: line(t), Detail: what}
}

// parseError keeps the place of a parser's error and drops its text, which quotes the source.
func parseError(err error) error {
	e := &Error{Rule: ErrSyntax, Err: err}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Line = line(y.GetToken())
	}
	return e
}

func line(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 0
	}
	return t.Position.Line
}
