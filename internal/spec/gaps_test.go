package spec

// gap is a section or a claim without code, or without a test, outside the codec; or a decision
// without any.
type gap struct{ tag, lacks string }

// gaps are the known gaps, with their reasons.
var gaps = map[gap]string{
	{"OP-43", "code"}: "claims for a medium add nothing that could be written",
}
