package spec

// gap is a section or a claim that has no code, or no test, outside the codec.
type gap struct{ tag, lacks string }

const (
	medium = "repeats another claim for a medium that holds the program"
)

// gaps are those that are known, and why.
var gaps = map[gap]string{
	{"LWIO claim 5", "code"}:  "SMB 1 is refused: there is nothing to write, but it is tested",
	{"LWIO claim 6", "code"}:  medium,
	{"LWIO claim 6", "test"}:  medium,
	{"LWIO claim 23", "code"}: medium,
	{"LWIO claim 23", "test"}: medium,
}
