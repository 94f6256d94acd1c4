package main

import (
	"regexp"
	"sort"
	"strings"
)

// turnsOnPronoun matches a clause with a pronoun for the thing it is about, as in
// "the limit is that of the server" or "Errors: those of the file".
var turnsOnPronoun = regexp.MustCompile(`(?i)(?:\b(?:is|are|was|were)|[:;]) (?:that|those|the same) of\b`)

// startsWithPronoun matches the first words of a sentence, a list item or a table cell that
// stand for a thing, or for the statement of another sentence, as in "So it is with a write".
// Words such as "who" and "what" are missing here: the map pronouns forbids them everywhere.
var startsWithPronoun = regexp.MustCompile(`(?:^|\n|[.!?|]["')]* ) *((?:It is that|That|The same) of|Those|One that|So it is (?:with|when|if|for)|Nor (?:do|does|is|are))\b`)

// phraseStart is startsWithPronoun for a comment that begins in lower case.
var phraseStart = regexp.MustCompile(`^ *((?:it is that|that|the same) of|those|one that)\b`)

var listMark = regexp.MustCompile(`^ *(?:[-*] |[0-9]+\. |#+ )`)

// sentences checks the sentences of a text. A sentence may cross lines; the first line has
// the given number. A blank line or the mark of a list or heading ends a sentence.
func (c *checker) sentences(lines []string, first int) {
	var text strings.Builder
	begins := make([]int, len(lines)) // offset of each line in text
	for i, line := range lines {
		line = quoted.ReplaceAllString(tag.ReplaceAllString(line, "x"), "x")
		mark := listMark.FindString(line)
		if mark != "" || strings.TrimSpace(line) == "" {
			text.WriteByte('\n')
		} else {
			text.WriteByte(' ')
		}
		begins[i] = text.Len()
		text.WriteString(strings.TrimSpace(line[len(mark):]))
	}
	flat := text.String()
	report := func(from, to int) {
		line := sort.SearchInts(begins, from+1) - 1
		c.add(first+line, "sentence", flat[from:to], "the thing itself")
	}
	for _, at := range turnsOnPronoun.FindAllStringIndex(flat, -1) {
		report(at[0], at[1])
	}
	for _, pattern := range []*regexp.Regexp{startsWithPronoun, phraseStart} {
		for _, at := range pattern.FindAllStringSubmatchIndex(flat, -1) {
			report(at[2], at[3])
		}
	}
}
