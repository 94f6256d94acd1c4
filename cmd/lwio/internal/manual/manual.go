// Package manual writes the manual pages of a tree of commands, in the language man of roff. The generator of cobra
// makes them of Markdown, by libraries that the command does not need otherwise.
package manual

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// width is the longest line of text in a page, in bytes.
const width = 78

// Page is a manual page.
type Page struct {
	// Name is the name of its file, as in "lwio-serve.1".
	Name string
	Text string
}

// Config describes the pages.
type Config struct {
	// Date is the date of the pages.
	Date time.Time
	// Version is the version of the program.
	Version string
	// Tail is added to the page of the first command: sections that begin with .SH.
	Tail string
}

// Pages returns a page for each command below root that help shows, and for root itself.
func Pages(root *cobra.Command, cfg *Config) []Page {
	var all []Page
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		all = append(all, Page{Name: pageName(c) + ".1", Text: page(c, cfg)})
		for _, sub := range visible(c) {
			visit(sub)
		}
	}
	visit(root)
	return all
}

// visible returns the commands of a command that help shows, without help itself.
func visible(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.Name() == "help"
	})
}

// pageName is the name of the page of a command.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page is the text of a page.
func page(c *cobra.Command, cfg *Config) string {
	var b strings.Builder
	name := pageName(c)
	fmt.Fprintf(&b, ".TH %s 1 %s %q %q\n", strings.ToUpper(escape(name)), cfg.Date.UTC().Format(time.DateOnly), "lwio "+cfg.Version, "User commands")
	b.WriteString(".SH NAME\n")
	lines(&b, name+" - "+lowerFirst(c.Short))
	use, rest := c.CommandPath(), strings.TrimPrefix(c.UseLine(), c.CommandPath())
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", escape(use), escape(rest))
	b.WriteString(".SH DESCRIPTION\n")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	text(&b, long)
	if subs := visible(c); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n", escape(pageName(sub)))
			lines(&b, sub.Short+".")
		}
	}
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	b.WriteString(".SH EXIT STATUS\n0 for success, 1 for a failure, and 2 for a command line that has a mistake.\n")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", escape(pageName(c.Parent())))
	} else {
		b.WriteString(cfg.Tail)
	}
	return b.String()
}

// text writes paragraphs, which empty lines separate. The lines of a paragraph that is indented stay as they are.
func text(b *strings.Builder, long string) {
	for i, paragraph := range strings.Split(strings.Trim(long, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
			b.WriteString(".PP\n.nf\n")
			for line := range strings.SplitSeq(paragraph, "\n") {
				b.WriteString(escape(line) + "\n")
			}
			b.WriteString(".fi\n")
			continue
		}
		if i > 0 {
			b.WriteString(".PP\n")
		}
		lines(b, paragraph)
	}
}

// lines writes a text in lines of the width.
func lines(b *strings.Builder, s string) {
	used := 0
	for _, word := range strings.Fields(s) {
		word = escape(word)
		switch {
		case used == 0:
		case used+1+len(word) > width:
			b.WriteString("\n")
			used = 0
		default:
			b.WriteString(" ")
			used++
		}
		if used == 0 && (word[0] == '.' || word[0] == '\'') {
			word = `\&` + word
		}
		b.WriteString(word)
		used += len(word)
	}
	b.WriteString("\n")
}

// options writes a section of flags, if there are any.
func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", f.Shorthand)
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", escape(f.Name))
		if value != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", escape(value))
		}
		b.WriteString("\n")
		if !slices.Contains([]string{"", "0", "0s", "[]", "false"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		lines(b, usage)
	})
}

// lowerFirst makes the first letter of a sentence small, unless a name begins it.
func lowerFirst(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// escape writes a text so that roff prints it as it is. A hyphen is a minus, so that a flag can be copied.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
