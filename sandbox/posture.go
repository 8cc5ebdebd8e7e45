package sandbox

import "context"

type posture struct{ declared, observed map[string]string }

func (s *Sandbox) observe(ctx context.Context) error { return nil }
