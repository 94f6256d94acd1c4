package manual

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// Roff prints a text as it is, also with a dot or a quote at its beginning.
func TestTextIsEscaped(t *testing.T) {
	c := &cobra.Command{
		Use: "tool FILE", Short: "Do it", Run: func(*cobra.Command, []string) {},
		Long: ".begin 'with -dots \\ \"and\" 50µs\n\n  an example\n  .of two lines",
	}
	c.Flags().String("long-name", "x", "a `value` of it")
	pages := Pages(c, &Config{Date: time.Unix(0, 0), Version: "1", Tail: ".SH FILES\nnone\n"})
	if len(pages) != 1 || pages[0].Name != "tool.1" {
		t.Fatal(pages)
	}
	for _, want := range []string{
		".TH TOOL 1 1970-01-01 \"lwio 1\" \"User commands\"\n", "tool \\- do it\n",
		"\n\\&.begin 'with \\-dots \\e \\(dqand\\(dq 50\\[u00B5]s\n", ".nf\n  an example\n  .of two lines\n.fi\n",
		"\\fB\\-\\-long\\-name\\fR \\fIvalue\\fR\na value of it (default x)\n", ".SH FILES\nnone\n",
	} {
		if !strings.Contains(pages[0].Text, want) {
			t.Errorf("the page lacks %q:\n%s", want, pages[0].Text)
		}
	}
}

// No line is longer than the width, unless one word is.
func TestLinesAreWrapped(t *testing.T) {
	var b strings.Builder
	lines(&b, strings.Repeat("word 'quoted ", 100))
	for line := range strings.SplitSeq(b.String(), "\n") {
		if len(line) > width || strings.HasPrefix(line, "'") {
			t.Errorf("%q", line)
		}
	}
}
