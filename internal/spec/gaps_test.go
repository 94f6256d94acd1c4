package spec

// gap is a section or a claim that has no code, or no test, outside the codec.
type gap struct{ tag, lacks string }

// gaps are those that are known, and why.
var gaps = map[gap]string{}
