package secretform

// Matcher looks for a set of forms at once (Aho and Corasick). It is immutable and safe for concurrent use.
type Matcher struct {
	nodes []node
}

// node is one prefix of a form.
type node struct {
	edges []edge
	fail  int32 // the longest proper suffix that is itself a prefix of a form
	depth int32 // the length of the prefix
	found int32 // the length of the longest form that ends here; zero when none does
}

type edge struct {
	on byte
	to int32
}

// NewMatcher returns a matcher for the forms; empty ones are left out. Its size is in proportion to their total length.
func NewMatcher(forms [][]byte) *Matcher {
	m := &Matcher{nodes: make([]node, 1)}
	for _, form := range forms {
		m.insert(form)
	}
	m.link()
	return m
}

func (m *Matcher) insert(form []byte) {
	if len(form) == 0 {
		return
	}
	at := int32(0)
	for _, b := range form {
		next := m.child(at, b)
		if next < 0 {
			next = int32(len(m.nodes))
			m.nodes = append(m.nodes, node{depth: m.nodes[at].depth + 1})
			m.nodes[at].edges = append(m.nodes[at].edges, edge{b, next})
		}
		at = next
	}
	m.nodes[at].found = m.nodes[at].depth
}

// link sets the suffix links, breadth first.
func (m *Matcher) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range m.nodes[at].edges {
			if at != 0 {
				m.nodes[e.to].fail = m.step(m.nodes[at].fail, e.on)
			}
			m.nodes[e.to].found = max(m.nodes[e.to].found, m.nodes[m.nodes[e.to].fail].found)
			queue = append(queue, e.to)
		}
	}
}

// child returns the node one byte further, or -1.
func (m *Matcher) child(at int32, b byte) int32 {
	for _, e := range m.nodes[at].edges {
		if e.on == b {
			return e.to
		}
	}
	return -1
}

func (m *Matcher) step(at int32, b byte) int32 {
	for {
		if next := m.child(at, b); next >= 0 {
			return next
		}
		if at == 0 {
			return 0
		}
		at = m.nodes[at].fail
	}
}

// Contains reports whether any form occurs in data.
func (m *Matcher) Contains(data []byte) bool { return m.Search().Add(data) }

// Search is one pass over data that comes in pieces. It is for one goroutine.
type Search struct {
	matcher *Matcher
	at      int32
	hit     bool
}

// Search begins a pass.
func (m *Matcher) Search() *Search { return &Search{matcher: m} }

// Add takes the next piece and reports whether any form has occurred so far.
func (s *Search) Add(piece []byte) bool {
	for _, b := range piece {
		if s.hit {
			break
		}
		s.at = s.matcher.step(s.at, b)
		s.hit = s.matcher.nodes[s.at].found > 0
	}
	return s.hit
}

// Write is Add for io.Copy; it never fails.
func (s *Search) Write(piece []byte) (int, error) {
	s.Add(piece)
	return len(piece), nil
}

// Found reports whether any form has occurred.
func (s *Search) Found() bool { return s.hit }
