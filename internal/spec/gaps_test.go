package spec

// gap is a section or a claim that has no code, or no test, outside the codec; or a
// decision that has none anywhere.
type gap struct{ tag, lacks string }

// gaps are those that are known, and why.
var gaps = map[gap]string{
	{"OP-43", "code"}: "claims for a medium add nothing that could be written",
}
