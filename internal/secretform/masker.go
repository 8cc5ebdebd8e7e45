package secretform

// Masker replaces every occurrence of a form in a stream by a mark. It holds back only what may still become an
// occurrence. It is for one goroutine.
type Masker struct {
	matcher *Matcher
	mark    []byte
	at      int32
	held    []byte
	secret  []bool // for each held byte: it belongs to an occurrence
	marked  bool   // the last byte let go belonged to one
}

// Masker begins a stream.
func (m *Matcher) Masker(mark string) *Masker { return &Masker{matcher: m, mark: []byte(mark)} }

// Add takes the next piece and appends to out what is certain by now.
func (m *Masker) Add(out, piece []byte) []byte {
	for _, b := range piece {
		m.at = m.matcher.step(m.at, b)
		m.held = append(m.held, b)
		m.secret = append(m.secret, false)
		m.cover(int(m.matcher.nodes[m.at].found))
		// Letting go byte by byte would move the rest each time.
		if certain := len(m.held) - int(m.matcher.nodes[m.at].depth); certain >= 4096 {
			out = m.release(out, certain)
		}
	}
	return m.release(out, len(m.held)-int(m.matcher.nodes[m.at].depth))
}

// End appends what was held back. The beginning of a form that the stream ends in is masked as well, when it is MinLength
// bytes or longer.
func (m *Masker) End(out []byte) []byte {
	if open := int(m.matcher.nodes[m.at].depth); open >= MinLength {
		m.cover(open)
	}
	m.at = 0
	return m.release(out, len(m.held))
}

// cover marks the last n held bytes.
func (m *Masker) cover(n int) {
	for i := len(m.secret) - n; i < len(m.secret); i++ {
		m.secret[i] = true
	}
}

func (m *Masker) release(out []byte, n int) []byte {
	for i := range n {
		if !m.secret[i] {
			out = append(out, m.held[i])
		} else if !m.marked {
			out = append(out, m.mark...)
		}
		m.marked = m.secret[i]
	}
	m.held = append(m.held[:0], m.held[n:]...)
	m.secret = append(m.secret[:0], m.secret[n:]...)
	return out
}
